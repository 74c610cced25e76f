-- The rows behind some names, by position (from 1): for `get`, and to tell why a batch left a name out.
SELECT r.i, l.name, l.token, l.holder_host, l.holder_pid, l.holder_nonce, l.principal, l.acquired_at,
    l.expires_at, l.released_at IS NOT NULL, l.ttl_ms, l.value, clock_timestamp(),
    (SELECT count(DISTINCT q.place) FROM leased.queue q WHERE q.name = l.name)
  FROM unnest($1::text[]) WITH ORDINALITY AS r(name, i)
  JOIN leased.leases l ON l.name = r.name
