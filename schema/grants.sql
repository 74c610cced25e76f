-- What each role may do: at the end of each migration and of `leased schema roles`, whichever came first.
REVOKE ALL ON SCHEMA leased FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA leased FROM PUBLIC;
DO $$
DECLARE
    is_empty boolean := to_regclass('leased.schema_version') IS NULL;
BEGIN
    IF to_regrole('leased_daemon') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA leased TO leased_daemon;
    END IF;
    IF to_regrole('leased_app') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA leased TO leased_app;
    END IF;
    IF to_regrole('leased_monitor') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA leased TO leased_monitor;
    END IF;
    IF is_empty THEN
        RETURN;
    END IF;
    -- As version.sql asks for it.
    IF to_regrole('leased_daemon') IS NOT NULL THEN
        GRANT SELECT ON leased.schema_version, leased.cluster, leased.settings, leased.channel, leased.queue,
            leased.watchers TO leased_daemon;
        GRANT SELECT, INSERT ON leased.events TO leased_daemon;
        GRANT SELECT, INSERT, UPDATE, DELETE ON leased.leases, leased.slots, leased.waiters, leased.daemons
            TO leased_daemon;
        GRANT USAGE ON SEQUENCE leased.token_seq, leased.place_seq TO leased_daemon;
        GRANT EXECUTE ON FUNCTION
            leased.epoch_base(),
            leased.timeline(),
            leased.trim(bigint, bigint),
            leased.next_run(timestamptz, bigint),
            leased.is_done(text, text, bigint),
            leased.complete_slot(leased.leases, integer, timestamptz),
            leased.has_room(text, integer),
            leased.has_line(text[], bigint),
            leased.lock_first(text, text, integer, bigint, text),
            leased.lock_over(text, integer, timestamptz),
            leased.put_grant(leased.leases),
            leased.take(text[], text, integer, bigint, text, bigint, bigint, text, bigint, text, boolean, bigint, bigint, integer),
            leased.tell(text[]),
            leased.change_line(text, leased.leases),
            leased.tell_change(text, leased.leases),
            leased.notify_next(text[], bigint),
            leased.notify_stolen(text, bigint, text, text, text)
        TO leased_daemon;
    END IF;
    IF to_regrole('leased_app') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION
            leased.try_acquire(text, text, integer, bigint, interval, interval, text, text, text, interval, interval, integer, text[]),
            leased.renew(text, bigint, text, integer, bigint, interval, text),
            leased.release(text, bigint, text, integer, bigint, integer, boolean),
            leased.guard(text, bigint),
            leased.get(text),
            leased.history(text, integer)
        TO leased_app;
    END IF;
    IF to_regrole('leased_monitor') IS NOT NULL THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA leased TO leased_monitor;
        REVOKE SELECT ON leased.channel FROM leased_monitor; -- to know it is to be believed
        GRANT EXECUTE ON FUNCTION leased.get(text), leased.history(text, integer) TO leased_monitor;
    END IF;
END
$$;
