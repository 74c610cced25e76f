-- The roles of leased. Nobody logs in as one of them: GRANT them to those who do.
--   leased_owner    owns the schema and all that is in it; migrations run as the schema's owner
--   leased_daemon   what the daemon's statements need
--   leased_app      the SQL functions for applications
--   leased_monitor  reads
-- Roles belong to the whole cluster. Who may not make them has a schema of his own without them;
-- `leased schema roles` makes them later.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['leased_owner', 'leased_daemon', 'leased_app', 'leased_monitor'] LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        EXCEPTION
            WHEN insufficient_privilege THEN
                RAISE WARNING 'leased: no right to create the role %: an administrator can run the output of `leased schema roles`', role;
                RETURN;
            WHEN duplicate_object OR unique_violation THEN
                NULL; -- made at the same moment for another database
        END;
    END LOOP;
END
$$;
