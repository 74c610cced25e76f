-- One step of the housekeeping. $1, $2: the settings, or -1 to leave them.
SELECT n_events, n_leases, due_in_ms FROM leased.trim(nullif($1::int8, -1), nullif($2::int8, -1))
