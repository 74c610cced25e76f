-- Whoever applies a migration does it as the schema's owner; a new schema is leased_owner's, if that may be.
DO $$
DECLARE
    owner oid;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'leased') THEN
        BEGIN
            CREATE SCHEMA leased AUTHORIZATION leased_owner;
        EXCEPTION WHEN insufficient_privilege OR undefined_object THEN
            CREATE SCHEMA leased;
        END;
    END IF;
    SELECT nspowner INTO STRICT owner FROM pg_namespace WHERE nspname = 'leased';
    IF pg_has_role(owner, 'MEMBER') THEN
        PERFORM set_config('role', pg_get_userbyid(owner), true);
    END IF;
END
$$;
