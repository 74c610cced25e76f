-- One batch of acquires: sorted by name, a row a name. Returns the grants only; whoever is not among
-- them is looked up by look.sql. Rows of guarded transactions (FOR KEY SHARE) are skipped, not waited
-- for. A row that free locks is taken over for certain: it is locked and has expired. place: where the
-- request stands in the queue of its name, 0 for nowhere; whoever stands before it comes first. Leases that
-- several held (has_extras) are for leased.take().
WITH req AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::int4[], $4::int8[], $5::text[], $6::int8[],
                         $7::int8[], $8::text[], $9::int8[])
        AS r(name, host, pid, nonce, principal, ttl_ms, min_hold_ms, value, place)
     WHERE NOT EXISTS (SELECT FROM leased.queue q
                        WHERE q.name = r.name AND (r.place = 0 OR q.place < r.place))
), watched AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM leased.watchers) AS yes
), free AS MATERIALIZED (
    SELECT l.*, CASE WHEN (SELECT yes FROM watched) AND l.released_at IS NULL
                     THEN leased.change_line('e', l) END AS line
      FROM leased.leases l
     WHERE l.name = ANY (ARRAY(SELECT name FROM req)) AND NOT l.is_extra AND NOT l.has_extras
       AND l.expires_at <= now()
     ORDER BY l.name FOR UPDATE SKIP LOCKED
), epoch AS MATERIALIZED (
    -- $10: the epoch when this connection came up, which ends before the timeline can change; -1 through a
    -- pool, where it need not.
    SELECT CASE WHEN c.last_epoch = $10::int4 THEN c.last_epoch::int8 << 41
                ELSE leased.epoch_base() END AS base
      FROM leased.cluster c
), ended AS (
    INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce, principal,
        acquired_at, ended_at)
    SELECT name, token, 'expired', holder_host, holder_pid, holder_nonce, principal, acquired_at,
        expires_at
      FROM free WHERE released_at IS NULL AND $12::bool -- a history is kept
), won AS (
    INSERT INTO leased.leases AS l (name, token, holder_host, holder_pid, holder_nonce, principal,
        acquired_at, renewed_at, expires_at, ttl_ms, min_hold_ms, value)
    SELECT r.name, (SELECT base FROM epoch) + nextval('leased.token_seq'), r.host, r.pid, r.nonce,
        r.principal, now(), now(), now() + r.ttl_ms * interval '1 millisecond', r.ttl_ms,
        r.min_hold_ms, r.value
      FROM req r
     WHERE r.name IN (SELECT name FROM free)
        OR NOT EXISTS (SELECT FROM leased.leases x WHERE x.name = r.name)
    ON CONFLICT (name) WHERE NOT is_extra DO UPDATE SET
        token = greatest((SELECT base FROM epoch) + nextval('leased.token_seq'), l.token + 1),
        holder_host = excluded.holder_host, holder_pid = excluded.holder_pid,
        holder_nonce = excluded.holder_nonce, principal = excluded.principal,
        acquired_at = excluded.acquired_at, renewed_at = excluded.renewed_at,
        expires_at = excluded.expires_at, released_at = NULL, ttl_ms = excluded.ttl_ms,
        min_hold_ms = excluded.min_hold_ms, value = excluded.value, value_changes = 0, slot = NULL,
        max_holders = 1
    WHERE l.expires_at <= now() AND NOT l.has_extras
    RETURNING l.name, l.token, l.expires_at,
        CASE WHEN (SELECT yes FROM watched) THEN leased.change_line('g', l) END AS line
), left_queue AS (
    DELETE FROM leased.waiters w
     USING (SELECT x.ctid AS at
              FROM unnest($1::text[], $9::int8[]) AS r(name, place)
              JOIN leased.waiters x ON x.name = r.name AND x.place = r.place
             WHERE r.place > 0 AND x.daemon = $11::int8 AND x.name = ANY (ARRAY(SELECT name FROM won))
               FOR UPDATE OF x SKIP LOCKED) q
     WHERE w.ctid = q.at
)
SELECT name, token, expires_at, clock_timestamp(),
    CASE WHEN (SELECT yes FROM watched)
         THEN (SELECT leased.tell(array_agg(line) FILTER (WHERE line IS NOT NULL))
                 FROM (SELECT line FROM free UNION ALL SELECT line FROM won) w)::text END
  FROM won
