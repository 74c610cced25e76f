-- Behind release.sql: of these releases, which are repeated ones, also those that were released before, whoever
-- has the lease by now.
UNION ALL
SELECT r.i, NULL, NULL, NULL
  FROM unnest($1::text[], $2::int8[], $3::text[], $4::int4[], $5::int8[], $6::text[])
       WITH ORDINALITY AS r(name, token, host, pid, nonce, principal, i)
  JOIN leased.events e ON e.name = r.name AND e.token = r.token
 WHERE e.ended = 'released' AND e.holder_nonce = r.nonce AND e.holder_pid = r.pid
   AND e.holder_host = r.host AND e.principal = r.principal
