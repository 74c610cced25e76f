-- The other part of 0002: housekeeping, in small steps and for all callers together. A daemon calls
-- leased.trim() by itself; without one, call it now and then. Each table is walked a few pages at a time
-- in physical order, since an index on these times would be paid for by every release and renewal.

-- The end of a step that began at w: from where and when to go on. full: there is more to delete here.
CREATE FUNCTION leased.end_step(w leased.walks, step_blocks bigint, is_full boolean, keep_ms bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    size   bigint := pg_relation_size(('leased.' || w.walked)::regclass)
                     / current_setting('block_size')::bigint;
    is_end boolean := NOT is_full AND w.next_block + step_blocks >= size;
BEGIN
    UPDATE leased.walks x
       SET next_block = CASE WHEN is_full THEN w.next_block WHEN is_end THEN 0
                             ELSE w.next_block + step_blocks END,
           due_at = clock_timestamp() + interval '1 millisecond' * CASE WHEN is_full THEN 50
               WHEN is_end THEN least(greatest(keep_ms / 24, 1000), 86400000) ELSE 250 END
     WHERE x.walked = w.walked;
END
$$;

-- One step through the history: ended grants go keep_ms after their end. Returns how many.
CREATE FUNCTION leased.trim_events(keep_ms bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    step_blocks CONSTANT bigint := 64;
    step_rows   CONSTANT bigint := 1000;
    ended_by    timestamptz := clock_timestamp() - keep_ms * interval '1 millisecond';
    w           leased.walks;
    n           bigint;
BEGIN
    SELECT * INTO w FROM leased.walks x
     WHERE x.walked = 'events' AND x.due_at <= clock_timestamp() FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    WITH old AS MATERIALIZED (
        SELECT e.ctid AS place FROM leased.events e
         WHERE e.ctid >= format('(%s,0)', w.next_block)::tid
           AND e.ctid < format('(%s,0)', w.next_block + step_blocks)::tid
           AND e.ended_at < ended_by
         LIMIT step_rows
    )
    DELETE FROM leased.events e WHERE e.ctid = ANY (ARRAY(SELECT place FROM old));
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM leased.end_step(w, step_blocks, n = step_rows, keep_ms);
    RETURN n;
END
$$;

-- One step through the leases: rows that have been free for longer than keep_ms go. Never one that is
-- held or in its minimum hold (it has not expired), that a guard or a taker has locked, or that was
-- taken again a moment ago (it is looked at again behind its lock); nor one whose token the sequence has
-- not reached, so that the next grant of the name has a higher one in any case; nor one that still knows
-- of a run which counts for its interval; nor the first row before the extra ones.
CREATE FUNCTION leased.trim_leases(keep_ms bigint, history_keep_ms bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    step_blocks CONSTANT bigint := 64;
    step_rows   CONSTANT bigint := 1000;
    free_by     timestamptz := clock_timestamp() - keep_ms * interval '1 millisecond';
    told_from   timestamptz := clock_timestamp() - history_keep_ms * interval '1 millisecond';
    reached     bigint;
    w           leased.walks;
    n           bigint;
BEGIN
    SELECT * INTO w FROM leased.walks x
     WHERE x.walked = 'leases' AND x.due_at <= clock_timestamp() FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT (c.last_epoch::bigint << 41) + s.last_value INTO reached
      FROM leased.cluster c, leased.token_seq s;
    WITH idle AS MATERIALIZED (
        SELECT l.ctid AS place FROM leased.leases l
         WHERE l.ctid >= format('(%s,0)', w.next_block)::tid
           AND l.ctid < format('(%s,0)', w.next_block + step_blocks)::tid
           AND l.expires_at < free_by AND l.token <= reached
           AND coalesce(leased.next_run(l.ran_at, l.every_ms) < clock_timestamp(), true)
           AND NOT (l.has_extras AND EXISTS (SELECT FROM leased.leases e WHERE e.name = l.name AND e.is_extra))
         LIMIT step_rows FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM leased.leases l WHERE l.ctid = ANY (ARRAY(SELECT place FROM idle)) RETURNING l.*
    ), ended AS ( -- nobody will take it over, which would tell that it expired
        INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce,
            principal, acquired_at, ended_at)
        SELECT g.name, g.token, 'expired', g.holder_host, g.holder_pid, g.holder_nonce, g.principal,
            g.acquired_at, g.expires_at
          FROM gone g
         WHERE g.released_at IS NULL AND g.expires_at >= told_from AND history_keep_ms > 0
    )
    SELECT count(*) INTO n FROM gone;
    PERFORM leased.end_step(w, step_blocks, n = step_rows, keep_ms);
    RETURN n;
END
$$;

-- One step through the slots: those that may be forgotten go, of names that are not used any more.
CREATE FUNCTION leased.trim_slots() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    step_blocks CONSTANT bigint := 64;
    step_rows   CONSTANT bigint := 1000;
    day_ms      CONSTANT bigint := 86400000;
    w           leased.walks;
    n           bigint;
BEGIN
    SELECT * INTO w FROM leased.walks x
     WHERE x.walked = 'slots' AND x.due_at <= clock_timestamp() FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WITH old AS MATERIALIZED (
        SELECT s.ctid AS place FROM leased.slots s
         WHERE s.ctid >= format('(%s,0)', w.next_block)::tid
           AND s.ctid < format('(%s,0)', w.next_block + step_blocks)::tid
           AND s.forget_at < clock_timestamp()
         LIMIT step_rows FOR UPDATE SKIP LOCKED
    )
    DELETE FROM leased.slots s WHERE s.ctid = ANY (ARRAY(SELECT place FROM old));
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM leased.end_step(w, step_blocks, n = step_rows, day_ms);
END
$$;

-- One step of all walks, where they are due; when the next one is. Arguments that are not NULL become
-- the settings.
CREATE FUNCTION leased.trim(history_keep_ms bigint DEFAULT NULL, idle_keep_ms bigint DEFAULT NULL,
    OUT n_events bigint, OUT n_leases bigint, OUT due_in_ms bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s leased.settings;
BEGIN
    UPDATE leased.settings x
       SET history_keep_ms = coalesce(trim.history_keep_ms, x.history_keep_ms),
           idle_keep_ms = coalesce(trim.idle_keep_ms, x.idle_keep_ms)
     WHERE trim.history_keep_ms <> x.history_keep_ms OR trim.idle_keep_ms <> x.idle_keep_ms;
    IF FOUND THEN
        UPDATE leased.walks SET due_at = clock_timestamp();
    END IF;
    SELECT * INTO STRICT s FROM leased.settings;
    n_events := leased.trim_events(s.history_keep_ms);
    n_leases := leased.trim_leases(s.idle_keep_ms, s.history_keep_ms);
    PERFORM leased.trim_slots();
    SELECT greatest(0, extract(epoch FROM min(due_at) - clock_timestamp()) * 1000)::bigint
      INTO STRICT due_in_ms FROM leased.walks;
END
$$;
