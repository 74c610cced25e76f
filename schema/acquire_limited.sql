-- One batch of acquires with a slot or an interval, which may refuse them: as acquire.sql, but a call for
-- each, since what refuses must be read behind the row's lock. $13: how long, in ms, the slot is to be
-- remembered once it is completed; $14: this daemon, whose row in the line goes with the grant.
WITH won AS MATERIALIZED (
    SELECT r.name, r.place, t.token, t.expires_at
      FROM unnest($1::text[], $2::text[], $3::int4[], $4::int8[], $5::text[], $6::int8[], $7::int8[],
                  $8::text[], $9::int8[], $10::text[], $11::bool[], $12::int8[])
           AS r(name, host, pid, nonce, principal, ttl_ms, min_hold_ms, value, place, slot, slot_again,
                every_ms)
     CROSS JOIN LATERAL leased.take(r.name, r.host, r.pid, r.nonce, r.principal, r.ttl_ms, r.min_hold_ms,
                r.value, r.place, r.slot, r.slot_again, $13::int8, r.every_ms) t
), left_queue AS (
    DELETE FROM leased.waiters w USING won
     WHERE won.place > 0 AND w.name = won.name AND w.place = won.place AND w.daemon = $14::int8
)
SELECT name, token, expires_at, clock_timestamp() FROM won
