-- Whose objects are looked up: the server's own, and those that are named with their schema (the path is not
-- set before all this has been looked up: hence pg_catalog). Bounds for each statement, and the shape of the
-- plans: nested loops in the order of the sorted arrays, whatever the statistics say. $3: for this transaction
-- only (through a pool), or the session.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', $3),
    pg_catalog.set_config('statement_timeout', $1, $3), pg_catalog.set_config('lock_timeout', $2, $3),
    pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', $3),
    pg_catalog.set_config('jit', 'off', $3), pg_catalog.set_config('enable_hashjoin', 'off', $3),
    pg_catalog.set_config('enable_mergejoin', 'off', $3), pg_catalog.set_config('enable_seqscan', 'off', $3),
    pg_catalog.set_config('default_transaction_isolation', 'read committed', $3)
