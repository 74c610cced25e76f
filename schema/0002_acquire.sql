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
    SELECT l.ran_at INTO ran_at FROM leased.leases l
     WHERE l.name = check_not_done.name AND NOT l.is_extra;
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

-- Whether one more may hold a lease together with those that do, or are in their minimum hold. VOLATILE,
-- as is_done.
CREATE FUNCTION leased.has_room(name text, max_holders integer) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT count(*) < least(min(l.max_holders), has_room.max_holders)
  FROM leased.leases l WHERE l.name = has_room.name AND l.expires_at > clock_timestamp()
$$;

-- Whether somebody alive stands in line for one of these leases, before place (0: anybody at all).
CREATE FUNCTION leased.has_line(names text[], place bigint) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT EXISTS (SELECT FROM leased.queue q
                WHERE q.name = ANY (names) AND (has_line.place = 0 OR q.place < has_line.place))
$$;

-- Locks the first row of a lease, which is made, free, where there is none. False: it cannot be had at
-- once. Waits for nobody but those who are just making the same row: to be called in the order of the names.
CREATE FUNCTION leased.lock_first(name text, host text, pid integer, nonce bigint, principal text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    free_since timestamptz;
BEGIN
    FOR round IN 1..5 LOOP
        PERFORM FROM leased.leases l WHERE l.name = lock_first.name AND NOT l.is_extra
            FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            RETURN true;
        END IF;
        SELECT l.expires_at INTO free_since FROM leased.leases l
         WHERE l.name = lock_first.name AND NOT l.is_extra;
        IF FOUND THEN
            -- Somebody takes it just now; or, idle for so long, it is just being deleted: soon over.
            PERFORM pg_sleep(0.01) FROM leased.settings s
              WHERE free_since < clock_timestamp() - s.idle_keep_ms * interval '1 millisecond';
            IF NOT FOUND THEN
                RETURN false;
            END IF;
            CONTINUE;
        END IF;
        INSERT INTO leased.leases (name, token, holder_host, holder_pid, holder_nonce, principal,
            acquired_at, renewed_at, expires_at, released_at, ttl_ms)
        SELECT lock_first.name, leased.epoch_base() + nextval('leased.token_seq'), lock_first.host,
            lock_first.pid, lock_first.nonce, lock_first.principal, t.now, t.now, t.now, t.now, 1
          FROM (SELECT clock_timestamp() AS now OFFSET 0) t
            ON CONFLICT (name) WHERE NOT is_extra DO NOTHING;
    END LOOP;
    RETURN false;
END
$$;

-- Locks what is over at t, and says whether there is room beside all the rest: what is not over, or in the
-- hands of a guarded transaction. The first row is locked.
CREATE FUNCTION leased.lock_over(name text, max_holders integer, t timestamptz,
    OUT is_room boolean, OUT last_token bigint)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
WITH over AS MATERIALIZED (
    SELECT x.token FROM leased.leases x
     WHERE x.name = lock_over.name AND x.expires_at <= lock_over.t FOR UPDATE SKIP LOCKED
)
SELECT count(*) FILTER (WHERE o.token IS NULL)
           < least(min(l.max_holders) FILTER (WHERE o.token IS NULL), lock_over.max_holders),
    max(l.token)
  FROM leased.leases l LEFT JOIN over o ON o.token = l.token
 WHERE l.name = lock_over.name
$$;

-- A grant, which there is room for. What is over makes place for it: the first row is used again, an extra
-- one goes. The first row is written in any case, so that a snapshot from before cannot miss an extra one.
CREATE FUNCTION leased.put_grant(g leased.leases) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    first_is_over boolean := false;
    l             leased.leases;
BEGIN
    FOR l IN SELECT x.* FROM leased.leases x
              WHERE x.name = g.name AND x.expires_at <= g.acquired_at FOR UPDATE SKIP LOCKED LOOP
        IF l.released_at IS NULL THEN
            INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce,
                principal, acquired_at, ended_at)
            SELECT l.name, l.token, 'expired', l.holder_host, l.holder_pid, l.holder_nonce,
                l.principal, l.acquired_at, l.expires_at
              FROM leased.settings s WHERE s.history_keep_ms > 0;
            PERFORM leased.tell_change('e', l);
        END IF;
        IF l.is_extra THEN
            DELETE FROM leased.leases x WHERE x.name = l.name AND x.token = l.token;
        ELSE
            first_is_over := true;
        END IF;
    END LOOP;
    IF first_is_over THEN
        UPDATE leased.leases x SET
            token = g.token, holder_host = g.holder_host, holder_pid = g.holder_pid,
            holder_nonce = g.holder_nonce, principal = g.principal, acquired_at = g.acquired_at,
            renewed_at = g.renewed_at, expires_at = g.expires_at, released_at = NULL,
            ttl_ms = g.ttl_ms, min_hold_ms = g.min_hold_ms, value = g.value, value_changes = 0,
            slot = g.slot, slot_again = g.slot_again, slot_keep_ms = g.slot_keep_ms,
            every_ms = coalesce(g.every_ms, x.every_ms), max_holders = g.max_holders,
            has_extras = EXISTS (SELECT FROM leased.leases e WHERE e.name = g.name AND e.is_extra)
         WHERE x.name = g.name AND NOT x.is_extra;
    ELSE
        g.is_extra := true;
        INSERT INTO leased.leases SELECT g.*;
        UPDATE leased.leases x SET has_extras = true WHERE x.name = g.name AND NOT x.is_extra;
    END IF;
    PERFORM leased.tell_change('g', g);
END
$$;

-- Takes all these leases with one token, or returns no row: there is no room for one more holder of one of
-- them; somebody stands in line for it, before place; the first is done already (slot, every_ms), or held by
-- the same holder; or a row is locked. Never waits for a row lock of a guarded transaction. The arguments are good; slot, slot_again,
-- slot_keep_ms and every_ms may be NULL.
CREATE FUNCTION leased.take(
    names text[], host text, pid integer, nonce bigint, principal text, ttl_ms bigint,
    min_hold_ms bigint, value text, place bigint, slot text, slot_again boolean,
    slot_keep_ms bigint, every_ms bigint, max_holders integer,
    OUT token bigint, OUT expires_at timestamptz)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    sorted     text[] := ARRAY(SELECT n FROM unnest(names) n ORDER BY n COLLATE "C");
    limited    boolean := take.slot IS NOT NULL OR take.every_ms IS NOT NULL;
    last_token bigint := 0;
    n          text;
    room       record;
    g          leased.leases;
BEGIN
    -- Look first: a refusal then locks and writes nothing.
    IF leased.has_line(names, take.place)
       OR EXISTS (SELECT FROM unnest(names) x WHERE NOT leased.has_room(x, take.max_holders))
       OR limited AND leased.is_done(names[1], take.slot, take.every_ms) THEN
        RETURN;
    END IF;
    FOREACH n IN ARRAY sorted LOOP
        IF NOT leased.lock_first(n, take.host, take.pid, take.nonce, take.principal) THEN
            RETURN;
        END IF;
    END LOOP;
    -- The clock is read behind the locks: a grant begins after those before it have ended.
    g.acquired_at := clock_timestamp();
    -- Asked once more, by somebody who has it: one grant is enough, where there would be room for two.
    IF EXISTS (SELECT FROM leased.leases l
                WHERE l.name = names[1] AND l.holder_nonce = take.nonce AND l.holder_pid = take.pid
                  AND l.holder_host = take.host AND l.principal = take.principal
                  AND l.released_at IS NULL AND l.expires_at > g.acquired_at) THEN
        RETURN;
    END IF;
    FOREACH n IN ARRAY sorted LOOP
        SELECT * INTO room FROM leased.lock_over(n, take.max_holders, g.acquired_at);
        IF NOT room.is_room THEN
            RETURN;
        END IF;
        last_token := greatest(last_token, room.last_token);
    END LOOP;
    IF limited AND leased.is_done(names[1], take.slot, take.every_ms) THEN
        RETURN;
    END IF;
    g.token := greatest(leased.epoch_base() + nextval('leased.token_seq'), last_token + 1);
    g.holder_host := take.host;
    g.holder_pid := take.pid;
    g.holder_nonce := take.nonce;
    g.principal := take.principal;
    g.renewed_at := g.acquired_at;
    g.expires_at := g.acquired_at + take.ttl_ms * interval '1 millisecond';
    g.ttl_ms := take.ttl_ms;
    g.min_hold_ms := take.min_hold_ms;
    g.value := take.value;
    g.value_changes := 0;
    g.max_holders := take.max_holders;
    g.is_extra := false;
    g.has_extras := false;
    FOREACH n IN ARRAY sorted LOOP
        g.name := n;
        IF n = names[1] THEN
            g.slot := take.slot;
            g.slot_again := take.slot_again;
            g.slot_keep_ms := take.slot_keep_ms;
            g.every_ms := take.every_ms;
        ELSE
            g.slot := NULL;
            g.every_ms := NULL;
        END IF;
        PERFORM leased.put_grant(g);
    END LOOP;
    token := g.token;
    expires_at := g.expires_at;
    RETURN NEXT;
END
$$;

-- Takes the lease, or returns no row when others hold it or wait for it (or a guarded transaction still uses
-- an expired one). nonce: 64 random bits, drawn by the caller for each acquisition; the same holder again
-- gets the same grant.
--
-- slot: a schedule tick. Once a grant of it was released it is completed, and refused with LE005 for
-- slot_keep; with slot_on_failure 'again' not by a release with an exit status other than 0. every: LE005
-- as long as the last run that was released began less than so long ago (see next_run). max_holders: how
-- many may hold it at once, while this grant lasts; 1 is exclusive, 10000 as many as may be. also: further
-- leases, all or none; they get the same token, and are renewed and released by their own names.
CREATE FUNCTION leased.try_acquire(
    name text, host text, pid integer, nonce bigint,
    ttl interval DEFAULT '90 seconds', min_hold interval DEFAULT '0', value text DEFAULT NULL,
    slot text DEFAULT NULL, slot_on_failure text DEFAULT 'done', every interval DEFAULT NULL,
    slot_keep interval DEFAULT '12 hours', max_holders integer DEFAULT 1, also text[] DEFAULT '{}',
    OUT token bigint, OUT expires_at timestamptz)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    p_ttl_ms      bigint := leased.to_ms('ttl', ttl, 1);
    p_min_hold_ms bigint := leased.to_ms('min_hold', min_hold, 0);
    p_every_ms    bigint := CASE WHEN every IS NOT NULL THEN leased.to_ms('every', every, 1) END;
    p_keep_ms     bigint := CASE WHEN slot IS NOT NULL THEN leased.to_ms('slot_keep', slot_keep, 1) END;
    names         text[] := try_acquire.name || coalesce(also, '{}');
    l             leased.leases;
BEGIN
    PERFORM leased.check_names(names);
    PERFORM leased.check_holder(try_acquire.host, try_acquire.pid, try_acquire.nonce);
    PERFORM leased.check_value(try_acquire.value);
    IF try_acquire.slot IS NOT NULL THEN
        PERFORM leased.check_name(try_acquire.slot, 'slot');
    END IF;
    IF slot_on_failure IS NULL OR slot_on_failure NOT IN ('done', 'again') THEN
        RAISE EXCEPTION 'leased: slot_on_failure is done or again' USING ERRCODE = 'LE002';
    ELSIF try_acquire.max_holders IS NULL OR try_acquire.max_holders NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'leased: max_holders is 1 to 10000' USING ERRCODE = 'LE002';
    ELSIF try_acquire.max_holders > 1 AND (try_acquire.slot IS NOT NULL OR every IS NOT NULL) THEN
        RAISE EXCEPTION 'leased: a slot and an interval are for a lease with one holder'
            USING ERRCODE = 'LE002';
    END IF;

    FOR round IN 1..2 LOOP
        SELECT * INTO l FROM leased.leases x
         WHERE x.name = try_acquire.name AND x.expires_at > clock_timestamp() AND x.released_at IS NULL
           AND x.holder_nonce = try_acquire.nonce AND x.holder_pid = try_acquire.pid
           AND x.holder_host = try_acquire.host AND x.principal = leased.caller()
           AND cardinality(names) = (SELECT count(*) FROM leased.leases y
                                      WHERE y.name = ANY (names) AND y.token = x.token
                                        AND y.released_at IS NULL AND y.expires_at > clock_timestamp());
        IF FOUND THEN
            token := l.token;
            expires_at := l.expires_at;
            RETURN NEXT;
            RETURN;
        END IF;
        IF try_acquire.slot IS NOT NULL OR every IS NOT NULL THEN
            PERFORM leased.check_not_done(try_acquire.name, try_acquire.slot, p_every_ms);
        END IF;
        RETURN QUERY SELECT t.token, t.expires_at
          FROM leased.take(names, try_acquire.host, try_acquire.pid, try_acquire.nonce,
                leased.caller(), p_ttl_ms, p_min_hold_ms, try_acquire.value, 0, try_acquire.slot,
                slot_on_failure = 'again', p_keep_ms, p_every_ms, try_acquire.max_holders) t;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
END
$$;
