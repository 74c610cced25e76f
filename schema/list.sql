-- Rows whose name begins with $1 (with $5: is $1), after name $2 with token $3, in byte order of the
-- names, then by token: every grant that is not over, and one row of each name of which there is none. No
-- name is above the upper end: 64 times U+10FFFF is 256 bytes.
SELECT 1::int8, l.name, l.token, l.holder_host, l.holder_pid, l.holder_nonce, l.principal, l.acquired_at,
    l.expires_at, l.released_at IS NOT NULL, l.ttl_ms, l.value, clock_timestamp(),
    (SELECT count(DISTINCT q.place) FROM leased.queue q WHERE q.name = l.name), l.max_holders
  FROM leased.leases l
 WHERE l.name >= $1::text AND (l.name, l.token) > ($2::text, $3::int8) AND starts_with(l.name, $1::text)
   AND l.name < $1::text || CASE WHEN $5::bool THEN U&'\0001' ELSE repeat(U&'\+10FFFF', 64) END
   AND (l.expires_at > now()
        OR (NOT l.is_extra
            AND NOT (l.has_extras AND EXISTS (SELECT FROM leased.leases x
                                               WHERE x.name = l.name AND x.expires_at > now()))))
 ORDER BY l.name, l.token
 LIMIT $4::int4
