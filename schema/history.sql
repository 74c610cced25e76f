-- The grants of lease $1 with tokens below $3 that ended less than $2 ms ago, newest first: at most $4,
-- out of a step of $5. Behind them, marked, the last row of a full step: from there it goes on.
WITH step AS MATERIALIZED (
    (SELECT l.name, l.token, CASE WHEN l.expires_at > now() THEN 'held' ELSE 'expired' END AS ended,
        l.holder_host, l.holder_pid, l.holder_nonce, l.principal, l.acquired_at,
        CASE WHEN l.expires_at <= now() THEN l.expires_at END AS ended_at,
        NULL::int4 AS exit_status, NULL::text AS stolen_by, NULL::text AS reason, true AS is_newest
      FROM leased.leases l
     WHERE l.name = $1::text AND l.released_at IS NULL AND l.token < $3::int8
     ORDER BY l.token DESC LIMIT $5::int4)
    UNION ALL
    (SELECT e.name, e.token, e.ended, e.holder_host, e.holder_pid, e.holder_nonce, e.principal,
        e.acquired_at, e.ended_at, e.exit_status, e.stolen_by, e.reason, false
      FROM leased.events e
     WHERE e.name = $1::text AND e.token < $3::int8
     ORDER BY e.token DESC LIMIT $5::int4)
    ORDER BY token DESC LIMIT $5::int4
)
(SELECT false, clock_timestamp(), s.* FROM step s
  WHERE s.ended_at IS NULL OR s.ended_at >= now() - $2::int8 * interval '1 millisecond'
  ORDER BY s.token DESC LIMIT $4::int4)
UNION ALL
(SELECT true, clock_timestamp(), s.* FROM step s ORDER BY s.token DESC OFFSET $5::int4 - 1 LIMIT 1)
