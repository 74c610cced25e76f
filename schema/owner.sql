-- Whoever applies a migration does it as the schema's owner; a new schema is leased_owner's, if that may be. A
-- superuser does it for nobody else: triggers of whoever made the schema first could take his role back.
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
    IF owner IS DISTINCT FROM to_regrole('leased_owner')::oid
       AND (SELECT rolsuper FROM pg_roles WHERE rolname = session_user)
       AND NOT (SELECT rolsuper FROM pg_roles r WHERE r.oid = owner) THEN
        RAISE EXCEPTION 'leased: the schema belongs to %, whose code a superuser would run: let that role apply it or, if you trust it, run `leased schema roles` first',
            owner::regrole;
    END IF;
    IF pg_has_role(owner, 'MEMBER') THEN
        PERFORM set_config('role', pg_get_userbyid(owner), true);
    END IF;
END
$$;
