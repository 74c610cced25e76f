-- Behind look.sql: one acquire of several leases, $1, which stands in line at $9 (0: nowhere). Told is that
-- one which refuses it: somebody else holds it, or stands before it in its line; a grant of its own only where
-- all are its own. Slot and interval are of the first.
  FROM (SELECT ($1::text[])[1] AS name, nullif($2::text, '') AS slot, nullif($3::int8, 0) AS every_ms,
               $4::text AS host, $5::int4 AS pid, $6::int8 AS nonce, $7::text AS principal,
               $8::int4 AS max_holders, $9::int8 AS place, 1::int8 AS i) r
  LEFT JOIN LATERAL (
    SELECT x.*, n.holders, n.least_holders, n.any_extras,
        (SELECT f.ran_at FROM leased.leases f WHERE f.name = r.name AND NOT f.is_extra) AS last_ran_at
      FROM unnest($1::text[]) WITH ORDINALITY AS u(name, k)
     CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE y.expires_at > now()) AS holders,
            min(y.max_holders) FILTER (WHERE y.expires_at > now()) AS least_holders,
            bool_or(y.is_extra OR y.has_extras) AS any_extras
          FROM leased.leases y WHERE y.name = u.name) n
      LEFT JOIN LATERAL (
        SELECT y.*, y.holder_nonce = r.nonce AND y.holder_pid = r.pid AND y.holder_host = r.host
                    AND y.principal = r.principal AND y.expires_at > now() AS is_ours
          FROM leased.leases y WHERE y.name = u.name
         ORDER BY is_ours DESC, y.expires_at > now() DESC, y.expires_at LIMIT 1) x ON true
     ORDER BY NOT coalesce(x.is_ours, false) AND (n.holders >= least(n.least_holders, r.max_holders)
            OR EXISTS (SELECT FROM leased.queue q
                        WHERE q.name = u.name AND (r.place = 0 OR q.place < r.place))) DESC,
        coalesce(x.is_ours, false), x.name IS NULL, u.k
     LIMIT 1) l ON true
  LEFT JOIN leased.slots s ON s.name = r.name AND s.slot = r.slot AND s.forget_at > now()
 WHERE l.name IS NOT NULL OR s.name IS NOT NULL
