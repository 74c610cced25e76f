-- A page of grants that last now, for a watch: of $4 rows whose name begins with $1 (with $5: is $1) and
-- that come after name $2 with token $3, in byte order of the names, then by token. The last of them is
-- told in any case, since from there it goes on; its position says whether there may be more.
SELECT 1::int8, l.name, l.token, l.holder_host, l.holder_pid, l.holder_nonce, l.principal, l.acquired_at,
    l.expires_at, l.released_at IS NOT NULL, l.ttl_ms, l.value, clock_timestamp(), l.position,
    l.max_holders, l.value_changes::int8
  FROM (SELECT x.*, row_number() OVER in_order AS position, lead(x.name) OVER in_order IS NULL AS is_last
          FROM (SELECT * FROM leased.leases y
                 WHERE y.name >= $1::text AND (y.name, y.token) > ($2::text, $3::int8)
                   AND starts_with(y.name, $1::text)
                   AND y.name < $1::text || CASE WHEN $5::bool THEN U&'\0001'
                                                 ELSE repeat(U&'\+10FFFF', 64) END
                 ORDER BY y.name, y.token LIMIT $4::int4) x
        WINDOW in_order AS (ORDER BY x.name, x.token)) l
 WHERE (l.released_at IS NULL AND l.expires_at > now()) OR l.is_last
 ORDER BY l.name, l.token
