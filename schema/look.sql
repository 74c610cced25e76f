-- The rows behind some names, by position (from 1): for `get`, and to tell why a batch left a name out.
-- The rest of a row says what refuses it by its slot ($2), and by its interval ($3, in ms): who completed
-- the slot, if it was; when it ran last and may run again, if that is yet to come.
SELECT r.i, l.name, l.token, l.holder_host, l.holder_pid, l.holder_nonce, l.principal, l.acquired_at,
    l.expires_at, l.released_at IS NOT NULL, l.ttl_ms, l.value, clock_timestamp(),
    (SELECT count(DISTINCT q.place) FROM leased.queue q WHERE q.name = l.name),
    s.token, s.holder_host, s.holder_pid, s.holder_nonce, s.principal, s.exit_status, s.done_at,
    CASE WHEN leased.next_run(l.ran_at, r.every_ms) > now() THEN l.ran_at END,
    leased.next_run(l.ran_at, r.every_ms)
  FROM unnest($1::text[], $2::text[], $3::int8[]) WITH ORDINALITY AS r(name, slot, every_ms, i)
  LEFT JOIN leased.leases l ON l.name = r.name
  LEFT JOIN leased.slots s ON s.name = r.name AND s.slot = r.slot
        AND s.forget_at > now()
 WHERE l.name IS NOT NULL OR s.name IS NOT NULL
