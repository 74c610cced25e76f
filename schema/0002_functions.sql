-- 0002: functions for use from any driver, through any pool, with or without the daemon.
--
-- SECURITY DEFINER with a fixed search_path and no EXECUTE: the role leased_app may call them and touch
-- nothing else (grants.sql). A lease taken here belongs to the role that has logged in (leased.caller), as one
-- taken through the daemon belongs to the principal behind the connection.
--
-- SQLSTATE class LE: LE001 not held (guard, renew, release) · LE002 bad argument · LE003 epochs used up
-- · LE005 already done (try_acquire: the slot was completed, or the interval is not over).

-- The server's timeline, 0 where a hardened or managed server has withdrawn the functions that tell it.
-- In plpgsql, since PostgreSQL checks the right to a function of plain SQL before any CASE is looked at.
CREATE FUNCTION leased.timeline() RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF has_function_privilege('pg_catalog.pg_walfile_name(pg_lsn)', 'EXECUTE')
       AND has_function_privilege('pg_catalog.pg_current_wal_lsn()', 'EXECUTE') THEN
        RETURN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer;
    END IF;
    RETURN 0;
END
$$;

-- The upper part of a token (design section 6). The epoch is the timeline, which rises at every
-- promotion, plus a stored base, which is raised when this is a copy: the system identifier has changed
-- (restore, dump and load, upgrade), or the OIDs of the database and its sequence have (a restore into
-- the same server, CREATE DATABASE ... TEMPLATE). It never falls, also when the timeline can no longer
-- be read. What it cannot see: a second copy made of the same dump, which gets the epoch of the first.
CREATE FUNCTION leased.epoch_base() RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c        leased.cluster;
    system   bigint;
    here     text;
    timeline integer := greatest(leased.timeline(), 1);
    epoch    integer;
BEGIN
    SELECT * INTO STRICT c FROM leased.cluster;
    IF has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') THEN
        system := (SELECT system_identifier FROM pg_control_system());
    END IF;
    system := coalesce(system, c.system_identifier); -- hidden is not changed
    here := format('%s/%s', (SELECT oid FROM pg_database WHERE datname = current_database()),
        'leased.token_seq'::regclass::oid);
    epoch := greatest(c.epoch_base + timeline - 1, c.last_epoch);

    IF epoch > c.last_epoch OR system IS DISTINCT FROM c.system_identifier
       OR here IS DISTINCT FROM c.place THEN
        -- Rare: first use, a promotion, a copy. Read again behind the row's lock.
        SELECT * INTO STRICT c FROM leased.cluster FOR UPDATE;
        IF system <> c.system_identifier OR here <> c.place THEN -- NULL: first use
            c.last_epoch := greatest(c.last_epoch,
                coalesce((SELECT max(l.token) >> 41 FROM leased.leases l), 0)::integer);
            c.epoch_base := greatest(c.epoch_base, c.last_epoch + 2 - timeline);
        END IF;
        epoch := greatest(c.epoch_base + timeline - 1, c.last_epoch);
        UPDATE leased.cluster
           SET system_identifier = coalesce(system, c.system_identifier), place = here,
               epoch_base = c.epoch_base, last_epoch = epoch;
    END IF;
    IF epoch > 4095 THEN
        RAISE EXCEPTION 'leased: token epoch % is above 4095, the last one below 2^53', epoch
            USING ERRCODE = 'LE003', HINT = 'No further token can be given in this database.';
    END IF;
    RETURN epoch::bigint << 41;
END
$$;

-- The principal who calls. The colon keeps it apart from those of the daemon, where a key may be named as a role is.
CREATE FUNCTION leased.caller() RETURNS text
LANGUAGE sql STABLE AS $$
SELECT 'role:' || session_user
$$;

-- What a lease name may be, and a slot.
CREATE FUNCTION leased.check_name(name text, what text DEFAULT 'lease name') RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF name IS NULL OR octet_length(name) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'leased: a % has 1 to 255 bytes, this one has %', what,
            coalesce(octet_length(name), 0) USING ERRCODE = 'LE002';
    ELSIF name ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' THEN
        RAISE EXCEPTION 'leased: a % holds no control characters', what USING ERRCODE = 'LE002';
    END IF;
END
$$;

-- The names of one acquisition.
CREATE FUNCTION leased.check_names(names text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM leased.check_name(n) FROM unnest(names) n;
    IF cardinality(names) > 64 THEN
        RAISE EXCEPTION 'leased: at most 64 leases can be acquired together, not %', cardinality(names)
            USING ERRCODE = 'LE002';
    ELSIF cardinality(names) > (SELECT count(DISTINCT n COLLATE "C") FROM unnest(names) n) THEN
        RAISE EXCEPTION 'leased: the same lease is named twice' USING ERRCODE = 'LE002';
    END IF;
END
$$;

CREATE FUNCTION leased.check_value(value text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF octet_length(value) > 4096 THEN
        RAISE EXCEPTION 'leased: a value has at most 4096 bytes, this one has %',
            octet_length(value) USING ERRCODE = 'LE002';
    END IF;
END
$$;

-- As the daemon checks them: what is in the table is shown by everybody, in lists and on terminals.
CREATE FUNCTION leased.check_holder(host text, pid integer, nonce bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF host IS NULL OR pid IS NULL OR nonce IS NULL THEN
        RAISE EXCEPTION 'leased: a holder is host, pid and nonce; none may be NULL'
            USING ERRCODE = 'LE002';
    ELSIF octet_length(host) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'leased: a host has 1 to 255 bytes, this one has %', octet_length(host)
            USING ERRCODE = 'LE002';
    ELSIF host ~ E'[\\u0001-\\u0020:\\u007f-\\u009f]' THEN
        RAISE EXCEPTION 'leased: a host holds no colon, space or control character'
            USING ERRCODE = 'LE002';
    ELSIF pid < 1 THEN
        RAISE EXCEPTION 'leased: a pid is above zero' USING ERRCODE = 'LE002';
    END IF;
END
$$;

-- A span in milliseconds, from min_ms to ten years, the longest that the daemon takes.
CREATE FUNCTION leased.to_ms(what text, span interval, min_ms bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ms bigint := extract(epoch FROM span) * 1000;
BEGIN
    IF ms IS NULL OR ms NOT BETWEEN min_ms AND 315576000000 THEN
        RAISE EXCEPTION 'leased: % must be % ms to 10 years', what, min_ms USING ERRCODE = 'LE002';
    END IF;
    RETURN ms;
END
$$;

-- host:pid:nonce, the nonce as 16 hex digits.
CREATE FUNCTION leased.holder(l leased.leases) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT format('%s:%s:%s', l.holder_host, l.holder_pid, lpad(to_hex(l.holder_nonce), 16, '0'))
$$;

-- Why a claim on l does not hold, in words.
CREATE FUNCTION leased.why_not(l leased.leases, token bigint) RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE
    WHEN l.name IS NULL THEN 'nobody holds it'
    WHEN l.released_at IS NOT NULL AND l.token = token THEN 'it was released'
    WHEN l.expires_at <= clock_timestamp() AND l.token = token
        THEN format('it expired at %s', l.expires_at)
    WHEN l.expires_at <= clock_timestamp() OR l.released_at IS NOT NULL
        THEN format('nobody holds it; the last token was %s', l.token)
    WHEN l.token <> token
        THEN format('it is held by %s with token %s', leased.holder(l), l.token)
    ELSE format('it is held by %s for %s', leased.holder(l), l.principal)
END
$$;

-- Raises LE001 unless l is held now by exactly this claim of the caller.
CREATE FUNCTION leased.check_claim(
    l leased.leases, name text, token bigint, host text, pid integer, nonce bigint, what text)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF l.token = token AND l.holder_host = host AND l.holder_pid = pid AND l.holder_nonce = nonce
       AND l.principal = leased.caller() AND l.released_at IS NULL
       AND l.expires_at > clock_timestamp() THEN
        RETURN;
    END IF;
    RAISE EXCEPTION 'leased: % "%" with token %: %', what, name, token, leased.why_not(l, token)
        USING ERRCODE = 'LE001';
END
$$;

-- Tells the daemons some lines: in one notification, or as many as its limit of 8,000 bytes asks for.
-- A line is never longer than that, whatever the name, the host and the value.
CREATE FUNCTION leased.tell(told text[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    channel text := (SELECT c.name FROM leased.channel c);
    lines   text := '';
    line    text;
BEGIN
    FOREACH line IN ARRAY told LOOP
        IF octet_length(lines) + octet_length(line) > 7900 THEN
            PERFORM pg_notify(channel, lines);
            lines := '';
        END IF;
        lines := lines || line;
    END LOOP;
    IF lines <> '' THEN
        PERFORM pg_notify(channel, lines);
    END IF;
END
$$;

-- Tells the daemons where the first in line for each of these names waits, `here` aside, which knows:
-- `w`, the daemon, the name, between tabs. VOLATILE, so that the line is looked at behind the locks of the
-- caller: see queue.sql.
CREATE FUNCTION leased.notify_next(names text[], here bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    told text[];
BEGIN
    IF NOT EXISTS (SELECT FROM leased.waiters) THEN
        RETURN;
    END IF;
    SELECT array_agg(DISTINCT format(E'w\t%s\t%s\n', q.daemon, q.name)) INTO told
      FROM (SELECT DISTINCT n FROM unnest(names) n) u
     CROSS JOIN LATERAL (SELECT q.name, q.place FROM leased.queue q
                          WHERE q.name = u.n ORDER BY q.place LIMIT 1) f
      JOIN leased.queue q ON q.name = f.name AND q.place = f.place
     WHERE q.daemon <> here;
    IF told IS NOT NULL THEN
        PERFORM leased.tell(told);
    END IF;
END
$$;

-- A lease has changed: `g` granted, `v` its value, `r` released, `e` expired some time ago, as whoever takes
-- it or deletes its row tells first; then the token, the holder, milliseconds until the expiry (g) or
-- value_changes (v), the name, and the value if there is one (g, v) in base64.
CREATE FUNCTION leased.change_line(kind text, l leased.leases) RETURNS text
LANGUAGE sql STABLE AS $$
SELECT format(E'%s\t%s\t%s:%s:%s\t%s\t%s%s\n', kind, l.token, l.holder_host, l.holder_pid,
    lpad(to_hex(l.holder_nonce), 16, '0'),
    CASE kind WHEN 'g' THEN l.ttl_ms WHEN 'v' THEN l.value_changes ELSE 0 END, l.name,
    CASE WHEN kind IN ('g', 'v') AND l.value IS NOT NULL
         THEN E'\t' || translate(encode(convert_to(l.value, 'UTF8'), 'base64'), E'\n', '') END)
$$;

-- The same for functions, if anybody watches. A snapshot from before somebody did cannot tell: the
-- higher isolation levels tell always.
CREATE FUNCTION leased.tell_change(kind text, l leased.leases) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable')
       OR EXISTS (SELECT FROM leased.watchers) THEN
        PERFORM leased.tell(ARRAY[leased.change_line(kind, l)]);
    END IF;
END
$$;

-- Tells all daemons that a grant was ended by somebody else: `s`, token, name, principal of the holder,
-- and who did it why.
CREATE FUNCTION leased.notify_stolen(name text, token bigint, principal text, stealer text, reason text)
RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT leased.tell(ARRAY[format(E's\t%s\t%s\t%s\t%s: %s\n', token, name, principal, stealer, reason)])
$$;

-- The row of a grant, locked; or, where there is none, another one of the lease, which tells why.
CREATE FUNCTION leased.lock_grant(name text, token bigint) RETURNS leased.leases
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    l leased.leases;
BEGIN
    SELECT * INTO l FROM leased.leases x
     WHERE x.name = lock_grant.name AND x.token = lock_grant.token FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        SELECT * INTO l FROM leased.leases x
         WHERE x.name = lock_grant.name ORDER BY x.expires_at DESC LIMIT 1;
    END IF;
    RETURN l;
END
$$;

-- Extends the lease to now + ttl (as before when NULL) and publishes value (NULL keeps the one there
-- is, '' takes it away). Raises LE001 when it is not held by exactly this holder and the caller any
-- more. Returns the new expiry.
CREATE FUNCTION leased.renew(
    name text, token bigint, host text, pid integer, nonce bigint, ttl interval DEFAULT NULL,
    value text DEFAULT NULL)
RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    p_ttl_ms bigint := CASE WHEN ttl IS NOT NULL THEN leased.to_ms('ttl', ttl, 1) END;
    l        leased.leases;
BEGIN
    PERFORM leased.check_value(renew.value);
    -- Lock first, then look at the clock: a renewal that waited past the expiry has lost.
    l := leased.lock_grant(renew.name, renew.token);
    PERFORM leased.check_claim(l, renew.name, renew.token, renew.host, renew.pid, renew.nonce, 'renew');
    UPDATE leased.leases x
       SET renewed_at = t.now, ttl_ms = coalesce(p_ttl_ms, x.ttl_ms),
           expires_at = t.now + coalesce(p_ttl_ms, x.ttl_ms) * interval '1 millisecond',
           value = CASE WHEN renew.value IS NULL THEN x.value ELSE nullif(renew.value, '') END,
           value_changes = x.value_changes + (renew.value IS NOT NULL)::integer
      FROM (SELECT clock_timestamp() AS now OFFSET 0) t
     WHERE x.name = renew.name AND x.token = renew.token
    RETURNING x.* INTO STRICT l;
    IF renew.value IS NOT NULL THEN
        PERFORM leased.tell_change('v', l);
    END IF;
    RETURN l.expires_at;
END
$$;

-- Gives the lease back; exit_status is kept in the history. Raises LE001 when it is not held. undone:
-- the work was not done, so that the slot stays open and the grant is no run that `every` counts.
CREATE FUNCTION leased.release(
    name text, token bigint, host text, pid integer, nonce bigint, exit_status integer DEFAULT NULL,
    undone boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    l leased.leases;
    t timestamptz;
BEGIN
    l := leased.lock_grant(release.name, release.token);
    PERFORM leased.check_claim(l, release.name, release.token, release.host, release.pid,
        release.nonce, 'release');
    t := clock_timestamp();
    UPDATE leased.leases x
       SET released_at = t,
           expires_at = greatest(t, x.acquired_at + x.min_hold_ms * interval '1 millisecond'),
           ran_at = CASE WHEN release.undone OR x.max_holders > 1 THEN x.ran_at ELSE x.acquired_at END
     WHERE x.name = release.name AND x.token = release.token;
    INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce,
        principal, acquired_at, ended_at, exit_status)
    SELECT l.name, l.token, 'released', l.holder_host, l.holder_pid, l.holder_nonce,
        l.principal, l.acquired_at, t, release.exit_status
      FROM leased.settings s WHERE s.history_keep_ms > 0;
    IF l.slot IS NOT NULL AND NOT coalesce(release.undone, false) THEN
        PERFORM leased.complete_slot(l, release.exit_status, t);
    END IF;
    PERFORM leased.tell_change('r', l);
    PERFORM leased.notify_next(ARRAY[release.name], 0);
END
$$;

-- Ends the grant of whoever holds the lease, and records who did it and why. token: where several hold
-- it, whose. Not for leased_app: its caller needs the right to it. Raises LE001 when nobody holds it.
-- Returns the token that was ended.
CREATE FUNCTION leased.steal(name text, reason text, token bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    l leased.leases;
    t timestamptz;
BEGIN
    IF reason IS NULL OR octet_length(reason) NOT BETWEEN 1 AND 1024 THEN
        RAISE EXCEPTION 'leased: a steal needs a reason of 1 to 1024 bytes' USING ERRCODE = 'LE002';
    ELSIF reason ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' THEN
        RAISE EXCEPTION 'leased: a reason holds no control characters' USING ERRCODE = 'LE002';
    END IF;
    IF steal.token IS NULL AND (SELECT count(*) > 1 FROM leased.leases x
                                 WHERE x.name = steal.name AND x.released_at IS NULL
                                   AND x.expires_at > clock_timestamp()) THEN
        RAISE EXCEPTION 'leased: steal "%": several hold it: say whose grant by its token', steal.name
            USING ERRCODE = 'LE002';
    END IF;
    SELECT * INTO l FROM leased.leases x
     WHERE x.name = steal.name AND x.token = coalesce(steal.token, x.token) AND x.released_at IS NULL
       AND x.expires_at > clock_timestamp()
       FOR NO KEY UPDATE;
    t := clock_timestamp();
    IF l.name IS NULL OR l.released_at IS NOT NULL OR l.expires_at <= t THEN
        RAISE EXCEPTION 'leased: steal "%": nobody holds it', steal.name USING ERRCODE = 'LE001';
    END IF;
    UPDATE leased.leases x SET released_at = t, expires_at = t
     WHERE x.name = l.name AND x.token = l.token;
    INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce, principal,
        acquired_at, ended_at, stolen_by, reason)
    SELECT l.name, l.token, 'stolen', l.holder_host, l.holder_pid, l.holder_nonce, l.principal,
        l.acquired_at, t, leased.caller(), steal.reason
      FROM leased.settings s WHERE s.history_keep_ms > 0;
    PERFORM leased.notify_stolen(l.name, l.token, l.principal, leased.caller(), steal.reason);
    PERFORM leased.notify_next(ARRAY[steal.name], 0);
    RETURN l.token;
END
$$;

-- Proof at the moment of a write (design section 5): raises LE001 unless token holds name now. The
-- lock (FOR KEY SHARE) lets renewals pass and makes a take-over wait until this transaction ends, so
-- a guarded write commits while its lease is held, or not at all. REPEATABLE READ and SERIALIZABLE see
-- the row as it was when their snapshot was taken: a take-over since then is 40001, and so is an expiry
-- that came after the transaction began, since a renewal cannot be seen; a retry tells for certain. A
-- release since then is not seen either; but no later grant can come before this transaction's end.
CREATE FUNCTION leased.guard(name text, token bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    l leased.leases;
BEGIN
    BEGIN
        SELECT * INTO l FROM leased.leases x
         WHERE x.name = guard.name AND x.token = guard.token FOR KEY SHARE;
    EXCEPTION WHEN serialization_failure THEN
        -- REPEATABLE READ and SERIALIZABLE: the lease changed hands behind this snapshot.
        RAISE EXCEPTION 'leased: guard "%" with token %: the lease was taken over after this transaction began',
            guard.name, guard.token
            USING ERRCODE = 'serialization_failure',
                  HINT = 'Nothing was written under the lost lease. Acquire it again before you retry.';
    END;
    IF l.token = guard.token AND l.released_at IS NULL AND l.expires_at > clock_timestamp() THEN
        RETURN;
    END IF;
    IF l.released_at IS NULL AND l.expires_at > now()
       AND current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'leased: guard "%" with token %: expired since this transaction began, which cannot see a renewal',
            guard.name, guard.token
            USING ERRCODE = 'serialization_failure', HINT = 'Roll back and try again.';
    END IF;
    IF l.name IS NULL THEN
        SELECT * INTO l FROM leased.leases x
         WHERE x.name = guard.name ORDER BY x.expires_at DESC LIMIT 1;
    END IF;
    RAISE EXCEPTION 'leased: guard "%" with token %: %', guard.name, guard.token,
        leased.why_not(l, guard.token)
        USING ERRCODE = 'LE001', HINT = 'Stop the work under this lease and roll back.';
END
$$;

-- Who holds it now: a row each, none when it is free.
CREATE FUNCTION leased.get(name text,
    OUT holder text, OUT principal text, OUT token bigint, OUT acquired_at timestamptz,
    OUT expires_at timestamptz, OUT value text)
RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT leased.holder(l), l.principal, l.token, l.acquired_at, l.expires_at, l.value
  FROM leased.leases l
 WHERE l.name = get.name AND l.released_at IS NULL AND l.expires_at > clock_timestamp()
 ORDER BY l.token
$$;

-- Who had it, newest first, with those that hold it now ("held"). A grant that has expired and after
-- which nobody has taken the lease yet is told as any other one that expired.
CREATE FUNCTION leased.history(name text, max_rows integer DEFAULT 100,
    OUT token bigint, OUT ended text, OUT holder text, OUT principal text, OUT acquired_at timestamptz,
    OUT ended_at timestamptz, OUT held_for interval, OUT exit_status integer, OUT stolen_by text,
    OUT reason text)
RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT g.token, g.ended, format('%s:%s:%s', g.holder_host, g.holder_pid, lpad(to_hex(g.holder_nonce), 16, '0')),
    g.principal, g.acquired_at, g.ended_at, coalesce(g.ended_at, clock_timestamp()) - g.acquired_at,
    g.exit_status, g.stolen_by, g.reason
  FROM ((SELECT l.token, CASE WHEN l.expires_at > now() THEN 'held' ELSE 'expired' END AS ended,
            l.holder_host, l.holder_pid, l.holder_nonce, l.principal, l.acquired_at,
            CASE WHEN l.expires_at <= now() THEN l.expires_at END AS ended_at,
            NULL AS exit_status, NULL AS stolen_by, NULL AS reason
          FROM leased.leases l WHERE l.name = history.name AND l.released_at IS NULL
         ORDER BY l.token DESC LIMIT max_rows)
        UNION ALL
        (SELECT e.token, e.ended, e.holder_host, e.holder_pid, e.holder_nonce, e.principal,
            e.acquired_at, e.ended_at, e.exit_status, e.stolen_by, e.reason
          FROM leased.events e WHERE e.name = history.name ORDER BY e.token DESC LIMIT max_rows)) g
 ORDER BY g.token DESC LIMIT max_rows
$$;
