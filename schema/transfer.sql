-- All that there is of the schema becomes leased_owner's. A daemon whose own role had it needs leased_daemon
-- from here on.
DO $$
DECLARE
    thing text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'leased') THEN
        CREATE SCHEMA leased;
    END IF;
    ALTER SCHEMA leased OWNER TO leased_owner;
    FOR thing IN
        SELECT format('TABLE %s', c.oid::regclass) FROM pg_class c
         WHERE c.relnamespace = 'leased'::regnamespace AND c.relkind IN ('r', 'v', 'S')
        UNION ALL
        SELECT format('FUNCTION %s', p.oid::regprocedure) FROM pg_proc p
         WHERE p.pronamespace = 'leased'::regnamespace
    LOOP
        EXECUTE format('ALTER %s OWNER TO leased_owner', thing);
    END LOOP;
END
$$;
