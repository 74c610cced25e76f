-- The rows behind some names, by position (from 1): for `get`, and to tell why a batch left a request out. Of
-- several rows of a lease that of the token, else that of the holder, else of those taken the one that ends
-- first. $11, unless empty: of these leases, one acquire's, whichever refuses it.
-- Columns from 15 on: who completed the slot ($2), if it was; by the interval ($3, in ms), when it ran last
-- and may run again, if that is yet to come; how many grants there are; whether there is room for one more
-- with max_holders ($9); and whether several hold it, or did.
SELECT r.i, l.name, l.token, l.holder_host, l.holder_pid, l.holder_nonce, l.principal, l.acquired_at,
    l.expires_at, l.released_at IS NOT NULL, l.ttl_ms, l.value, clock_timestamp(),
    (SELECT count(DISTINCT q.place) FROM leased.queue q WHERE q.name = n.name), l.max_holders,
    s.token, s.holder_host, s.holder_pid, s.holder_nonce, s.principal, s.exit_status, s.done_at,
    CASE WHEN leased.next_run(f.ran_at, r.every_ms) > now() THEN f.ran_at END,
    leased.next_run(f.ran_at, r.every_ms), n.holders, n.has_room, n.has_extras
  FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::text[], $6::int4[], $7::int8[],
              $8::text[], $9::int4[], $10::int8[]) WITH ORDINALITY
       AS r(name, slot, every_ms, token, host, pid, nonce, principal, max_holders, place, i)
 CROSS JOIN LATERAL (
    SELECT u.name, t.*
      FROM unnest(coalesce(nullif($11::text[], '{}'), ARRAY[r.name])) WITH ORDINALITY AS u(name, k)
     CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE x.expires_at > now()) AS holders,
            coalesce(count(*) FILTER (WHERE x.expires_at > now())
                < least(min(x.max_holders) FILTER (WHERE x.expires_at > now()), r.max_holders), true) AS has_room,
            coalesce(bool_or(x.is_extra OR x.has_extras), false) AS has_extras,
            coalesce(bool_or(x.holder_nonce = r.nonce AND x.holder_pid = r.pid AND x.holder_host = r.host
                AND x.principal = r.principal AND x.expires_at > now()), false) AS is_ours
          FROM leased.leases x WHERE x.name = u.name) t
     ORDER BY $11::text[] <> '{}' AND NOT t.is_ours AND (NOT t.has_room
            OR EXISTS (SELECT FROM leased.queue q
                        WHERE q.name = u.name AND (r.place = 0 OR q.place < r.place))) DESC,
        t.is_ours, u.k
     LIMIT 1) n
  LEFT JOIN LATERAL (
    SELECT x.* FROM leased.leases x WHERE x.name = n.name
     ORDER BY x.token = r.token DESC,
        (x.holder_nonce = r.nonce AND x.holder_pid = r.pid AND x.holder_host = r.host
         AND x.principal = r.principal) DESC,
        x.expires_at > now() DESC, x.expires_at
     LIMIT 1) l ON true
  LEFT JOIN leased.slots s ON s.name = coalesce(($11::text[])[1], r.name) AND s.slot = r.slot
        AND s.forget_at > now()
  LEFT JOIN leased.leases f ON f.name = coalesce(($11::text[])[1], r.name) AND NOT f.is_extra
        AND r.every_ms IS NOT NULL
 WHERE l.name IS NOT NULL OR s.name IS NOT NULL
