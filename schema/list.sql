-- Rows whose name begins with $1, after name $2, in byte order. No name is above the upper end: 64
-- times U+10FFFF is 256 bytes.
SELECT 1::int8, l.name, l.token, l.holder_host, l.holder_pid, l.holder_nonce, l.principal, l.acquired_at,
    l.expires_at, l.released_at IS NOT NULL, l.ttl_ms, l.value, clock_timestamp(),
    (SELECT count(DISTINCT q.place) FROM leased.queue q WHERE q.name = l.name)
  FROM leased.leases l
 WHERE l.name >= $1::text AND l.name < $1::text || repeat(U&'\+10FFFF', 64)
   AND l.name > $2::text AND starts_with(l.name, $1::text)
 ORDER BY l.name
 LIMIT $3::int4
