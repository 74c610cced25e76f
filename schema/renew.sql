-- One batch of renewals: sorted by name, each claim once. Returns those renewed, by position (from 1).
-- The clock that decides is the one behind all waiting: now() is when the flight began, and it may have
-- waited for the table since then. A row that somebody else has locked is skipped and looked up by look.sql.
UPDATE leased.leases l
   SET renewed_at = q.clock, expires_at = q.clock + q.ttl_ms * interval '1 millisecond', ttl_ms = q.ttl_ms
  FROM (SELECT x.ctid AS place, r.i, coalesce(r.ttl_ms, x.ttl_ms) AS ttl_ms, clock_timestamp() AS clock
          FROM unnest($1::text[], $2::int8[], $3::text[], $4::int4[], $5::int8[], $6::text[], $7::int8[])
               WITH ORDINALITY AS r(name, token, host, pid, nonce, principal, ttl_ms, i)
          JOIN leased.leases x ON x.name = r.name
         WHERE x.token = r.token AND x.holder_nonce = r.nonce AND x.holder_pid = r.pid
           AND x.holder_host = r.host AND x.principal = r.principal
           AND x.released_at IS NULL AND x.expires_at > clock_timestamp()
           FOR NO KEY UPDATE OF x SKIP LOCKED) q
 WHERE l.ctid = q.place AND l.expires_at > clock_timestamp()
RETURNING q.i, l.expires_at, clock_timestamp()
