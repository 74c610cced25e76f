-- The rows behind some names, by position (from 1): for `get`, and to tell why a batch left a request out. Of
-- several rows of a lease that of the token, else of those taken that of the holder, else, of those who hold it
-- (for an acquire: or are in their minimum hold), the one that ends first. Where from: look_one.sql or
-- look_several.sql.
-- Columns from 15 on: who completed the slot ($2), if it was; by the interval ($3, in ms), when it ran last
-- and may run again, if that is yet to come; how many grants there are; whether there is room for one more
-- with max_holders ($9); whether several hold it, or did; and whether somebody alive stands in line before
-- place (0: anybody at all).
WITH lines AS MATERIALIZED ( -- once a name: thousands may wait for one, and be looked at together
    SELECT q.name, count(DISTINCT q.place) AS waiters, min(q.place) AS first
      FROM leased.queue q WHERE q.name = ANY ($1::text[]) GROUP BY q.name
)
SELECT r.i, l.name, l.token, l.holder_host, l.holder_pid, l.holder_nonce, l.principal, l.acquired_at,
    l.expires_at, l.released_at IS NOT NULL, l.ttl_ms, l.value, clock_timestamp(),
    coalesce((SELECT lines.waiters FROM lines WHERE lines.name = l.name), 0), l.max_holders,
    s.token, s.holder_host, s.holder_pid, s.holder_nonce, s.principal, s.exit_status, s.done_at,
    CASE WHEN leased.next_run(l.last_ran_at, r.every_ms) > now() THEN l.last_ran_at END,
    leased.next_run(l.last_ran_at, r.every_ms), coalesce(l.holders, 0),
    coalesce(l.holders < least(l.least_holders, r.max_holders), true), coalesce(l.any_extras, false),
    EXISTS (SELECT FROM lines WHERE lines.name = l.name AND (r.place = 0 OR lines.first < r.place))
