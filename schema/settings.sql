-- Bounds for each statement, and the shape of the plans: nested loops in the order of the sorted
-- arrays, whatever the statistics say. $3: for this transaction only (through a pool), or the session.
SELECT set_config('statement_timeout', $1::text, $3::bool), set_config('lock_timeout', $2::text, $3::bool),
    set_config('plan_cache_mode', 'force_generic_plan', $3::bool), set_config('jit', 'off', $3::bool),
    set_config('enable_hashjoin', 'off', $3::bool), set_config('enable_mergejoin', 'off', $3::bool),
    set_config('enable_seqscan', 'off', $3::bool),
    set_config('default_transaction_isolation', 'read committed', $3::bool)
