-- The other part of 0002: acquiring, with what may refuse it besides a holder.

-- When the next run may start after one that was acquired at ran_at. Schedulers jitter, so a run may
-- come early by a twentieth of the interval, at most 10 seconds.
CREATE FUNCTION leased.next_run(ran_at timestamptz, every_ms bigint) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
SELECT ran_at + (every_ms - least(every_ms / 20, 10000)) * interval '1 millisecond'
$$;

-- Whether the slot was completed, or the interval since the last run is not over. VOLATILE, and so with
-- a snapshot of its own: behind the lock of the lease's row it sees whatever earlier holders have done,
-- also what was committed after the calling statement began.
CREATE FUNCTION leased.is_done(name text, slot text, every_ms bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := clock_timestamp();
BEGIN
    RETURN EXISTS (SELECT FROM leased.slots s
                    WHERE s.name = is_done.name AND s.slot = is_done.slot AND s.forget_at > t)
        OR EXISTS (SELECT FROM leased.leases l
                    WHERE l.name = is_done.name AND leased.next_run(l.ran_at, is_done.every_ms) > t);
END
$$;

-- Raises LE005 when it is done, and says by whom.
CREATE FUNCTION leased.check_not_done(name text, slot text, every_ms bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s      leased.slots;
    ran_at timestamptz;
BEGIN
    IF NOT leased.is_done(name, slot, every_ms) THEN
        RETURN;
    END IF;
    SELECT * INTO s FROM leased.slots x
     WHERE x.name = check_not_done.name AND x.slot = check_not_done.slot
       AND x.forget_at > clock_timestamp();
    IF FOUND THEN
        RAISE EXCEPTION 'leased: acquire "%": the slot "%" was completed at % by %:%:% (%) with token %, %',
            name, slot, s.done_at, s.holder_host, s.holder_pid,
            lpad(to_hex(s.holder_nonce), 16, '0'), s.principal, s.token,
            coalesce('exit status ' || s.exit_status, 'no exit status') USING ERRCODE = 'LE005';
    END IF;
    SELECT l.ran_at INTO ran_at FROM leased.leases l WHERE l.name = check_not_done.name;
    RAISE EXCEPTION 'leased: acquire "%": it ran at %, the next run may start at %', name, ran_at,
        leased.next_run(ran_at, every_ms) USING ERRCODE = 'LE005';
END
$$;

-- Remembers the slot of a grant that its holder has released, and forgets at most ten of the name that
-- need not be remembered any more. The lease's row is locked.
CREATE FUNCTION leased.complete_slot(l leased.leases, exit_status integer, at timestamptz)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF l.slot_again AND complete_slot.exit_status <> 0 THEN
        RETURN;
    END IF;
    INSERT INTO leased.slots (name, slot, token, exit_status, done_at, forget_at, holder_host,
        holder_pid, holder_nonce, principal)
    VALUES (l.name, l.slot, l.token, complete_slot.exit_status, complete_slot.at,
        complete_slot.at + l.slot_keep_ms * interval '1 millisecond', l.holder_host, l.holder_pid,
        l.holder_nonce, l.principal)
    ON CONFLICT (name, slot) DO UPDATE SET
        token = excluded.token, exit_status = excluded.exit_status, done_at = excluded.done_at,
        forget_at = excluded.forget_at, holder_host = excluded.holder_host,
        holder_pid = excluded.holder_pid, holder_nonce = excluded.holder_nonce,
        principal = excluded.principal;
    DELETE FROM leased.slots s
     WHERE s.name = l.name AND s.slot IN (
        SELECT x.slot FROM leased.slots x
         WHERE x.name = l.name AND x.forget_at <= complete_slot.at ORDER BY x.forget_at LIMIT 10);
END
$$;

-- Takes the lease, or returns no row: it is taken, or done already; somebody stands in line for it, before
-- place; or its row is locked. Never waits for a row lock of a guarded transaction. The arguments are
-- good; slot, slot_again, slot_keep_ms and every_ms may be NULL.
CREATE FUNCTION leased.take(
    name text, host text, pid integer, nonce bigint, principal text, ttl_ms bigint,
    min_hold_ms bigint, value text, place bigint, slot text, slot_again boolean,
    slot_keep_ms bigint, every_ms bigint,
    OUT token bigint, OUT expires_at timestamptz)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    limited    boolean := take.slot IS NOT NULL OR take.every_ms IS NOT NULL;
    base       bigint;
    free_since timestamptz;
    l          leased.leases;
BEGIN
    -- Look first: a refusal then locks and writes nothing. A few rounds, since what is seen may be gone.
    FOR round IN 1..5 LOOP
        SELECT * INTO l FROM leased.leases x WHERE x.name = take.name;
        IF l.expires_at > clock_timestamp()
           OR EXISTS (SELECT FROM leased.queue q
                       WHERE q.name = take.name AND (take.place = 0 OR q.place < take.place)) THEN
            RETURN;
        END IF;
        IF l.name IS NOT NULL THEN
            free_since := l.expires_at;
            SELECT * INTO l FROM leased.leases x
             WHERE x.name = take.name AND x.expires_at <= clock_timestamp()
               FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                -- Taken just now, or guarded; or, idle for so long, just being deleted: soon over.
                PERFORM pg_sleep(0.01) FROM leased.settings s
                  WHERE free_since < clock_timestamp() - s.idle_keep_ms * interval '1 millisecond';
                IF NOT FOUND THEN
                    RETURN;
                END IF;
                CONTINUE;
            END IF;
        END IF;
        IF limited AND leased.is_done(take.name, take.slot, take.every_ms) THEN
            RETURN;
        END IF;
        IF l.name IS NOT NULL AND l.released_at IS NULL THEN
            INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce,
                principal, acquired_at, ended_at)
            SELECT l.name, l.token, 'expired', l.holder_host, l.holder_pid, l.holder_nonce,
                l.principal, l.acquired_at, l.expires_at
              FROM leased.settings s WHERE s.history_keep_ms > 0;
        END IF;
        base := leased.epoch_base();
        -- The clock is read behind the row's lock: a grant begins after the one before has ended.
        INSERT INTO leased.leases AS x (name, token, holder_host, holder_pid, holder_nonce,
            principal, acquired_at, renewed_at, expires_at, ttl_ms, min_hold_ms, value, slot,
            slot_again, slot_keep_ms, every_ms)
        SELECT take.name, base + nextval('leased.token_seq'), take.host, take.pid, take.nonce,
            take.principal, t.now, t.now, t.now + take.ttl_ms * interval '1 millisecond',
            take.ttl_ms, take.min_hold_ms, take.value, take.slot, take.slot_again,
            take.slot_keep_ms, take.every_ms
          FROM (SELECT clock_timestamp() AS now OFFSET 0) t
        ON CONFLICT (name) DO UPDATE SET
            token = greatest(base + nextval('leased.token_seq'), x.token + 1),
            holder_host = excluded.holder_host, holder_pid = excluded.holder_pid,
            holder_nonce = excluded.holder_nonce, principal = excluded.principal,
            acquired_at = excluded.acquired_at, renewed_at = excluded.renewed_at,
            expires_at = excluded.expires_at, released_at = NULL,
            ttl_ms = excluded.ttl_ms, min_hold_ms = excluded.min_hold_ms, value = excluded.value,
            value_changes = 0, slot = excluded.slot, slot_again = excluded.slot_again,
            slot_keep_ms = excluded.slot_keep_ms, every_ms = coalesce(excluded.every_ms, x.every_ms)
        WHERE x.expires_at <= excluded.acquired_at
          -- For a row that was not there to be locked; this is behind its lock.
          AND NOT (limited AND leased.is_done(take.name, take.slot, take.every_ms))
        RETURNING x.* INTO l;
        IF FOUND THEN
            PERFORM leased.tell_change('g', l);
            token := l.token;
            expires_at := l.expires_at;
            RETURN NEXT;
            RETURN;
        END IF;
    END LOOP;
END
$$;

-- Takes the lease, or returns no row when someone else holds it or waits for it (or a guarded transaction
-- still uses an expired one). nonce: 64 random bits, drawn by the caller for each acquisition; the same
-- holder again gets the same grant.
--
-- slot: a schedule tick. Once a grant of it was released it is completed, and refused with LE005 for
-- slot_keep; with slot_on_failure 'again' not by a release with an exit status other than 0. every: LE005
-- as long as the last run that was released began less than so long ago (see next_run).
CREATE FUNCTION leased.try_acquire(
    name text, host text, pid integer, nonce bigint,
    ttl interval DEFAULT '90 seconds', min_hold interval DEFAULT '0', value text DEFAULT NULL,
    slot text DEFAULT NULL, slot_on_failure text DEFAULT 'done', every interval DEFAULT NULL,
    slot_keep interval DEFAULT '12 hours',
    OUT token bigint, OUT expires_at timestamptz)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    p_ttl_ms      bigint := leased.to_ms('ttl', ttl, 1);
    p_min_hold_ms bigint := leased.to_ms('min_hold', min_hold, 0);
    p_every_ms    bigint := CASE WHEN every IS NOT NULL THEN leased.to_ms('every', every, 1) END;
    p_keep_ms     bigint := CASE WHEN slot IS NOT NULL THEN leased.to_ms('slot_keep', slot_keep, 1) END;
    l             leased.leases;
BEGIN
    PERFORM leased.check_name(try_acquire.name);
    PERFORM leased.check_holder(try_acquire.host, try_acquire.pid, try_acquire.nonce);
    PERFORM leased.check_value(try_acquire.value);
    IF try_acquire.slot IS NOT NULL THEN
        PERFORM leased.check_name(try_acquire.slot, 'slot');
    END IF;
    IF slot_on_failure IS NULL OR slot_on_failure NOT IN ('done', 'again') THEN
        RAISE EXCEPTION 'leased: slot_on_failure is done or again' USING ERRCODE = 'LE002';
    END IF;

    FOR round IN 1..2 LOOP
        SELECT * INTO l FROM leased.leases x WHERE x.name = try_acquire.name;
        IF FOUND AND l.expires_at > clock_timestamp() AND l.released_at IS NULL
           AND l.holder_nonce = try_acquire.nonce AND l.holder_pid = try_acquire.pid
           AND l.holder_host = try_acquire.host AND l.principal = session_user THEN
            token := l.token;
            expires_at := l.expires_at;
            RETURN NEXT;
            RETURN;
        END IF;
        IF try_acquire.slot IS NOT NULL OR every IS NOT NULL THEN
            PERFORM leased.check_not_done(try_acquire.name, try_acquire.slot, p_every_ms);
        END IF;
        RETURN QUERY SELECT t.token, t.expires_at
          FROM leased.take(try_acquire.name, try_acquire.host, try_acquire.pid, try_acquire.nonce,
                session_user, p_ttl_ms, p_min_hold_ms, try_acquire.value, 0, try_acquire.slot,
                slot_on_failure = 'again', p_keep_ms, p_every_ms) t;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
END
$$;
