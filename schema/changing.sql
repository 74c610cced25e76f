-- The transactions that may be changing a lease just now: all, or those of $1 that are not over yet. And
-- the server process of one of them.
SELECT coalesce(string_agg(k.virtualtransaction, ' '), ''), coalesce(min(k.pid), 0)
  FROM pg_locks k
 WHERE k.locktype = 'relation' AND k.relation = 'leased.leases'::regclass AND k.granted
   AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
   AND k.mode = 'RowExclusiveLock' AND k.pid IS DISTINCT FROM pg_backend_pid()
   AND ($1::text = '' OR k.virtualtransaction = ANY (string_to_array($1::text, ' ')))
