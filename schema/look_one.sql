-- Behind look.sql: each request is about one lease.
  FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::text[], $6::int4[], $7::int8[],
              $8::text[], $9::int4[], $10::int8[]) WITH ORDINALITY
       AS r(name, slot, every_ms, token, host, pid, nonce, principal, max_holders, place, i)
  LEFT JOIN LATERAL (
    SELECT x.*, max(x.ran_at) OVER () AS last_ran_at,
        count(*) FILTER (WHERE x.expires_at > now()) OVER () AS holders,
        min(x.max_holders) FILTER (WHERE x.expires_at > now()) OVER () AS least_holders,
        bool_or(x.is_extra OR x.has_extras) OVER () AS any_extras
      FROM leased.leases x WHERE x.name = r.name
     ORDER BY x.token = r.token DESC,
        (x.holder_nonce = r.nonce AND x.holder_pid = r.pid AND x.holder_host = r.host
         AND x.principal = r.principal AND x.expires_at > now()) DESC,
        x.expires_at > now() DESC, (x.released_at IS NULL OR r.token = 0 AND r.pid > 0) DESC, x.expires_at
     LIMIT 1) l ON true
  LEFT JOIN leased.slots s ON s.name = r.name AND s.slot = r.slot AND s.forget_at > now()
 WHERE l.name IS NOT NULL OR s.name IS NOT NULL
