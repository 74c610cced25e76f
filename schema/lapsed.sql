-- Grants that expired less than $2 ms ago and after which nobody has taken the lease, of leases that
-- begin with $1 and that come after name $3 with token $4, in byte order of the names, then by token: at
-- most $5, out of a step of $6 rows. Behind them, marked, the last row of a full step: from there it goes on.
WITH step AS MATERIALIZED (
    SELECT l.name, l.token, 'expired' AS ended, l.holder_host, l.holder_pid, l.holder_nonce,
        l.principal, l.acquired_at, l.expires_at AS ended_at, NULL::int4 AS exit_status,
        NULL::text AS stolen_by, NULL::text AS reason, l.released_at IS NULL AS is_newest
      FROM leased.leases l
     WHERE l.name >= $1::text AND l.name < $1::text || repeat(U&'\+10FFFF', 64)
       AND (l.name, l.token) > ($3::text, $4::int8) AND starts_with(l.name, $1::text)
     ORDER BY l.name, l.token LIMIT $6::int4
)
(SELECT false, clock_timestamp(), s.* FROM step s
  WHERE s.is_newest AND s.ended_at <= now()
    AND s.ended_at >= now() - $2::int8 * interval '1 millisecond'
  ORDER BY s.name, s.token LIMIT $5::int4)
UNION ALL
(SELECT true, clock_timestamp(), s.* FROM step s ORDER BY s.name, s.token OFFSET $6::int4 - 1 LIMIT 1)
