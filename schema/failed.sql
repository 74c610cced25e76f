-- Grants that ended badly, less than $2 ms ago, of leases that begin with $1: below ($3, $4, $5) in
-- the order of end, name and token, newest first: at most $6, out of a step of $7. Behind them, marked,
-- the last row of a full step: from there it goes on.
WITH step AS MATERIALIZED (
    SELECT e.name, e.token, e.ended, e.holder_host, e.holder_pid, e.holder_nonce, e.principal,
        e.acquired_at, e.ended_at, e.exit_status, e.stolen_by, e.reason, false AS is_newest
      FROM leased.events e
     WHERE (e.ended <> 'released' OR e.exit_status <> 0)
       AND e.ended_at >= now() - $2::int8 * interval '1 millisecond'
       AND (e.ended_at, e.name, e.token) < ($3::timestamptz, $4::text, $5::int8)
     ORDER BY e.ended_at DESC, e.name DESC, e.token DESC LIMIT $7::int4
)
(SELECT false, clock_timestamp(), s.* FROM step s WHERE starts_with(s.name, $1::text)
  ORDER BY s.ended_at DESC, s.name DESC, s.token DESC LIMIT $6::int4)
UNION ALL
(SELECT true, clock_timestamp(), s.* FROM step s
  ORDER BY s.ended_at DESC, s.name DESC, s.token DESC OFFSET $7::int4 - 1 LIMIT 1)
