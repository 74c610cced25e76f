-- One batch of renewals that change the value too, as renew.sql: an empty one takes it away. All daemons
-- hear of it when somebody watches.
WITH watched AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM leased.watchers) AS yes
), changed AS (
    UPDATE leased.leases l
       SET renewed_at = q.clock, expires_at = q.clock + q.ttl_ms * interval '1 millisecond',
           ttl_ms = q.ttl_ms, value = nullif(q.value, ''), value_changes = l.value_changes + 1
      FROM (SELECT x.ctid AS place, r.i, coalesce(r.ttl_ms, x.ttl_ms) AS ttl_ms,
                   clock_timestamp() AS clock, r.value
              FROM unnest($1::text[], $2::int8[], $3::text[], $4::int4[], $5::int8[], $6::text[],
                          $7::int8[], $8::text[])
                   WITH ORDINALITY AS r(name, token, host, pid, nonce, principal, ttl_ms, value, i)
              JOIN leased.leases x ON x.name = r.name
             WHERE x.token = r.token AND x.holder_nonce = r.nonce AND x.holder_pid = r.pid
               AND x.holder_host = r.host AND x.principal = r.principal
               AND x.released_at IS NULL AND x.expires_at > clock_timestamp()
               FOR NO KEY UPDATE OF x SKIP LOCKED) q
     WHERE l.ctid = q.place AND l.expires_at > clock_timestamp()
    RETURNING q.i, l.expires_at,
        CASE WHEN (SELECT yes FROM watched) THEN leased.change_line('v', l) END AS line
)
SELECT i, expires_at, clock_timestamp(),
    CASE WHEN (SELECT yes FROM watched)
         THEN (SELECT leased.tell(array_agg(line)) FROM changed)::text END
  FROM changed
