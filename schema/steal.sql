-- One batch of steals: sorted by name, a row a name. Ends the grant of whoever holds the lease now (of
-- $2, where that is not 0; as it must not be where several hold it), a minimum hold included, and tells the
-- daemons whose it was and who is next. Returns the grants that were ended, as look.sql does. Behind the
-- lock the clock is read once more: what a watch has found expired stays so.
WITH stolen AS (
    UPDATE leased.leases l SET released_at = now(), expires_at = now()
      FROM (SELECT x.ctid AS place, x.expires_at AS until, r.i, r.stealer, r.reason
              FROM unnest($1::text[], $2::int8[], $3::text[], $4::text[])
                   WITH ORDINALITY AS r(name, token, stealer, reason, i)
              JOIN leased.leases x ON x.name = r.name
             WHERE x.released_at IS NULL AND x.expires_at > now()
               AND (x.token = r.token OR r.token = 0
                    AND NOT EXISTS (SELECT FROM leased.leases o
                                     WHERE o.name = x.name AND o.token <> x.token AND o.released_at IS NULL
                                       AND o.expires_at > now()))
               FOR NO KEY UPDATE OF x SKIP LOCKED) q
     WHERE l.ctid = q.place AND l.expires_at > clock_timestamp()
    RETURNING q.i, q.until, q.stealer, q.reason, l.*
), ended AS (
    INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce, principal,
        acquired_at, ended_at, stolen_by, reason)
    SELECT name, token, 'stolen', holder_host, holder_pid, holder_nonce, principal, acquired_at, now(),
        stealer, reason
      FROM stolen WHERE $6::bool -- a history is kept
)
SELECT i, name, token, holder_host, holder_pid, holder_nonce, principal, acquired_at, until, false,
    ttl_ms, value, clock_timestamp(), 0::int8, max_holders,
    leased.notify_stolen(name, token, principal, stealer, reason)::text,
    (SELECT leased.notify_next(array_agg(name), $5::int8) FROM stolen HAVING count(*) > 0)::text
  FROM stolen
