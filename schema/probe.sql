-- What this server is and can do; works before there is a schema. Nobody's objects but the server's own are
-- looked up, from the first word on; here for this one transaction, since a pool may stand between.
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT current_setting('server_version'), pg_backend_pid(), pg_is_in_recovery(),
    current_setting('transaction_read_only') = 'on', current_setting('default_transaction_isolation'),
    current_setting('synchronous_commit'), (extract(epoch FROM clock_timestamp()) * 1000000)::int8,
    to_regclass('leased.schema_version') IS NOT NULL,
    EXISTS (SELECT FROM pg_roles WHERE rolname = 'leased_app'),
    current_user, current_database(), current_setting('server_encoding'),
    EXISTS (SELECT FROM pg_roles WHERE rolname IN (session_user, current_user) AND rolsuper)
