-- A page of leases that are held now, for a watch: of $3 rows whose name begins with $1 (with $4: is $1)
-- and comes after $2, in byte order. The last of them is told in any case, since from there it goes on;
-- its position says whether there may be more.
SELECT 1::int8, l.name, l.token, l.holder_host, l.holder_pid, l.holder_nonce, l.principal, l.acquired_at,
    l.expires_at, l.released_at IS NOT NULL, l.ttl_ms, l.value, clock_timestamp(), l.position,
    l.value_changes::int8
  FROM (SELECT x.*, row_number() OVER by_name AS position, lead(x.name) OVER by_name IS NULL AS is_last
          FROM (SELECT * FROM leased.leases y
                 WHERE y.name >= $1::text AND y.name > $2::text AND starts_with(y.name, $1::text)
                   AND y.name < $1::text || CASE WHEN $4::bool THEN U&'\0001'
                                                 ELSE repeat(U&'\+10FFFF', 64) END
                 ORDER BY y.name LIMIT $3::int4) x
        WINDOW by_name AS (ORDER BY x.name)) l
 WHERE (l.released_at IS NULL AND l.expires_at > now()) OR l.is_last
 ORDER BY l.name
