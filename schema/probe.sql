-- What this server is and can do; works before there is a schema. Nobody's objects but the server's own are
-- looked up, from the first word on; here for this one transaction, since a pool may stand between.
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT current_setting('server_version'), pg_backend_pid(), pg_is_in_recovery(),
    current_setting('transaction_read_only') = 'on', current_setting('default_transaction_isolation'),
    current_setting('synchronous_commit'), (extract(epoch FROM clock_timestamp()) * 1000000)::int8,
    to_regclass('leased.schema_version') IS NOT NULL,
    EXISTS (SELECT FROM pg_roles WHERE rolname = 'leased_app'),
    current_user, current_database(), current_setting('server_encoding'),
    EXISTS (SELECT FROM pg_roles WHERE rolname IN (session_user, current_user) AND rolsuper),
    -- Who owns the schema, whether that is a superuser, and what this role has that leased_daemon has not.
    (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'leased'),
    EXISTS (SELECT FROM pg_namespace JOIN pg_roles r ON r.oid = nspowner WHERE nspname = 'leased' AND rolsuper),
    (SELECT string_agg(what, ', ')
       FROM (SELECT unnest(CASE WHEN rolsuper THEN ARRAY['SUPERUSER'] ELSE ARRAY[
                    CASE WHEN rolcreaterole THEN 'CREATEROLE' END, CASE WHEN rolcreatedb THEN 'CREATEDB' END,
                    CASE WHEN rolreplication THEN 'REPLICATION' END, CASE WHEN rolbypassrls THEN 'BYPASSRLS' END,
                    (SELECT CASE WHEN pg_has_role(r.oid, datdba, 'MEMBER') THEN 'what the owner of the database may'
                                 WHEN has_database_privilege(r.oid, d.oid, 'CREATE') THEN 'CREATE on the database' END
                       FROM pg_database d WHERE datname = current_database()),
                    (SELECT CASE WHEN pg_has_role(r.oid, nspowner, 'MEMBER') THEN 'what the owner of the schema may'
                                 WHEN has_schema_privilege(r.oid, n.oid, 'CREATE') THEN 'CREATE on the schema'
                                 WHEN EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid AND relkind IN ('r', 'p')
                                                 AND has_table_privilege(r.oid, pg_class.oid, 'TRUNCATE, TRIGGER, REFERENCES'))
                                 THEN 'TRUNCATE, TRIGGER or REFERENCES on its tables' END
                       FROM pg_namespace n WHERE nspname = 'leased'),
                    (SELECT string_agg('membership in ' || rolname, ', ' ORDER BY rolname) FROM pg_roles m
                      WHERE rolname ~ '^pg_' AND rolname <> 'pg_database_owner' AND pg_has_role(r.oid, m.oid, 'MEMBER'))
                ] END) AS what
               FROM pg_roles r WHERE rolname = session_user) s)
