-- One batch of acquires that need a call each: with a slot or an interval, which may refuse them; of leases
-- that several may hold; or, alone in its batch, one of several leases, $14 (else empty), in the line of one
-- of which it stands. What refuses them must be read behind the lock of the lease's first row.
-- $15: how long, in ms, a slot is to be remembered once it is completed; $16: this daemon, whose row in the
-- line goes with the grant. Where there may be room for one more, the next in line is told, unless it waits
-- at this daemon for the only lease, as the daemon knows.
WITH won AS MATERIALIZED (
    SELECT r.name, r.place, r.max_holders, t.token, t.expires_at
      FROM unnest($1::text[], $2::text[], $3::int4[], $4::int8[], $5::text[], $6::int8[], $7::int8[],
                  $8::text[], $9::int8[], $10::text[], $11::bool[], $12::int8[], $13::int4[])
           AS r(name, host, pid, nonce, principal, ttl_ms, min_hold_ms, value, place, slot, slot_again,
                every_ms, max_holders)
     CROSS JOIN LATERAL leased.take(coalesce(nullif($14::text[], '{}'), ARRAY[r.name]), r.host, r.pid, r.nonce,
                r.principal, r.ttl_ms, r.min_hold_ms, r.value, r.place, r.slot, r.slot_again, $15::int8,
                r.every_ms, r.max_holders) t
), left_queue AS (
    DELETE FROM leased.waiters w
     USING (SELECT x.ctid AS at FROM won JOIN leased.waiters x ON x.name = won.name AND x.place = won.place
             WHERE won.place > 0 AND x.daemon = $16::int8
               FOR UPDATE OF x SKIP LOCKED) q
     WHERE w.ctid = q.at
    RETURNING w.name
)
SELECT name, token, expires_at, clock_timestamp(),
    (SELECT leased.notify_next($14::text[] || array_agg(name), CASE WHEN $14::text[] = '{}' THEN $16::int8 ELSE 0 END)
       FROM won
      WHERE max_holders > 1 AND (SELECT count(*) FROM left_queue) >= 0 HAVING count(*) > 0)::text
  FROM won
