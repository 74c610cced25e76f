-- The version of the schema, and whether we may do all that the statements do.
SELECT coalesce(max(version), 0),
    has_table_privilege('leased.leases', 'SELECT')
    AND has_table_privilege('leased.leases', 'INSERT')
    AND has_table_privilege('leased.leases', 'UPDATE')
    AND has_table_privilege('leased.events', 'SELECT')
    AND has_table_privilege('leased.events', 'INSERT')
    AND has_table_privilege('leased.waiters', 'INSERT')
    AND has_table_privilege('leased.daemons', 'INSERT')
    AND has_table_privilege('leased.queue', 'SELECT')
    AND has_sequence_privilege('leased.token_seq', 'USAGE')
    AND has_sequence_privilege('leased.place_seq', 'USAGE')
    AND has_function_privilege('leased.epoch_base()', 'EXECUTE')
    AND has_function_privilege('leased.timeline()', 'EXECUTE')
    AND has_function_privilege('leased.trim(bigint, bigint)', 'EXECUTE')
  FROM leased.schema_version
