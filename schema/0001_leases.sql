-- 0001: the tables of leased. Runs inside one transaction; see schema/README in 0002 for the verbs.

-- One row a name; a row that is not held keeps the last holder until the name is taken again.
--   held:      released_at IS NULL     AND expires_at > now()
--   min-hold:  released_at IS NOT NULL AND expires_at > now()   (released, but stays taken)
--   free:      expires_at <= now(), or no row
-- Where several hold a lease at once, each further one has a row beside the first (is_extra), which goes
-- when it is over and somebody takes the lease. Of a name never more rows are taken than the smallest
-- max_holders among them. Whoever takes a lease locks the first row (NOT is_extra) before it looks at
-- the others.
-- No index on any column that a renewal or a release writes, so that both are HOT updates; half of
-- each page is left free for them. The key (name, token) makes a change of token a key update, which
-- is what waits for a guard's FOR KEY SHARE (PostgreSQL, "Explicit Locking", row-level locks).
-- No other CHECK here and in events: the functions and the daemon check what they write, and each one costs
-- every statement, since PostgreSQL reads its expression anew for each.
CREATE TABLE leased.leases (
    name         text COLLATE "C" NOT NULL,
    token        bigint NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991),
    holder_host  text NOT NULL,
    holder_pid   integer NOT NULL,
    holder_nonce bigint NOT NULL,
    principal    text NOT NULL,
    acquired_at  timestamptz NOT NULL,
    renewed_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    released_at  timestamptz,
    ttl_ms       bigint NOT NULL,
    min_hold_ms  bigint NOT NULL DEFAULT 0,
    value        text,
    slot         text COLLATE "C", -- of this grant
    slot_again   boolean,     -- a release with a non-zero exit status leaves the slot open
    slot_keep_ms bigint, -- how long the slot is remembered
    every_ms     bigint, -- the last interval asked for: the row is needed so long
    ran_at       timestamptz, -- when the last grant was acquired that was released, and not undone
    value_changes integer NOT NULL DEFAULT 0, -- since the grant: tells a watch which value is newer
    max_holders  integer NOT NULL DEFAULT 1, -- while this grant lasts; 1 to 10000
    is_extra     boolean NOT NULL DEFAULT false,
    has_extras   boolean NOT NULL DEFAULT false, -- of the first row: there are, or were, others
    PRIMARY KEY (name, token)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.1,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.2,
    autovacuum_analyze_threshold = 1000
);

CREATE UNIQUE INDEX leases_first ON leased.leases (name) WHERE NOT is_extra;

-- Each grant leaves one row when it ends: who held the lease, from when to when, and how it ended.
-- The grant that still lasts, and one that has expired without another one after it, is the row in
-- leases. (name, token) says that a grant ends once. Those that a person asks for after a bad night
-- have an index by time, which the others cost nothing. Old rows are found without one: see
-- leased.trim().
CREATE TABLE leased.events (
    name         text COLLATE "C" NOT NULL,
    token        bigint NOT NULL,
    ended        text NOT NULL, -- 'released', 'expired' or 'stolen'
    holder_host  text NOT NULL,
    holder_pid   integer NOT NULL,
    holder_nonce bigint NOT NULL,
    principal    text NOT NULL,
    acquired_at  timestamptz NOT NULL,
    ended_at     timestamptz NOT NULL,
    exit_status  integer,
    stolen_by    text, -- 'stolen': by which principal
    reason       text,
    PRIMARY KEY (name, token)
) WITH (
    autovacuum_vacuum_scale_factor = 0.05, -- what was trimmed is room for what comes
    autovacuum_vacuum_threshold = 1000
);
CREATE INDEX events_failed ON leased.events (ended_at, name, token)
    WHERE ended <> 'released' OR exit_status <> 0;

-- What the daemons are told by their configuration (history_keep, idle_keep), for the functions: the
-- daemon that was started or reloaded last decides. history_keep_ms 0: nothing is written to events.
-- idle_keep_ms is above what one transaction can last: where a row is missing, a grant begins at the
-- beginning of its transaction, and the grant before must have ended by then.
CREATE TABLE leased.settings (
    only_row        boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    history_keep_ms bigint NOT NULL DEFAULT 1209600000 -- 14 days
                    CHECK (history_keep_ms BETWEEN 0 AND 315576000000), -- 10 years
    idle_keep_ms    bigint NOT NULL DEFAULT 2592000000 -- 30 days
                    CHECK (idle_keep_ms BETWEEN 3600000 AND 315576000000)
);
INSERT INTO leased.settings DEFAULT VALUES;

-- Where leased.trim() is on its walk through a table, for all daemons together: whoever has the row
-- locked makes the next step.
CREATE TABLE leased.walks (
    walked     text PRIMARY KEY, -- the table
    next_block bigint NOT NULL DEFAULT 0,
    due_at     timestamptz NOT NULL DEFAULT now()
);
INSERT INTO leased.walks (walked) VALUES ('events'), ('leases'), ('slots');

-- Schedule ticks that were completed: a slot of a name is not granted again until it is forgotten.
-- Written by a release, behind the lock of the lease's row; some old ones of the name go then too.
CREATE TABLE leased.slots (
    name         text COLLATE "C" NOT NULL,
    slot         text COLLATE "C" NOT NULL,
    token        bigint NOT NULL,
    exit_status  integer,
    done_at      timestamptz NOT NULL,
    forget_at    timestamptz NOT NULL,
    holder_host  text NOT NULL,
    holder_pid   integer NOT NULL,
    holder_nonce bigint NOT NULL,
    principal    text NOT NULL,
    PRIMARY KEY (name, slot)
);
CREATE INDEX slots_by_age ON leased.slots (name, forget_at);

-- A token is epoch * 2^41 + this sequence: below 2^53, strictly rising for each name.
CREATE SEQUENCE leased.token_seq AS bigint MINVALUE 1 MAXVALUE 2199023255551 CACHE 1 NO CYCLE;

-- What the epoch is derived from: see leased.epoch_base().
CREATE TABLE leased.cluster (
    only_row          boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    system_identifier bigint,
    place             text, -- of this database and its sequence within the server
    epoch_base        integer NOT NULL DEFAULT 0,
    last_epoch        integer NOT NULL DEFAULT 0
);
INSERT INTO leased.cluster DEFAULT VALUES;

-- The channel on which daemons are told what happens. Every role may listen and notify on any, and this one tells
-- names, holders and values, and is believed: so its name is drawn by chance, and only daemons may read it.
CREATE TABLE leased.channel (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    name     text NOT NULL DEFAULT 'leased_' || replace(gen_random_uuid()::text, '-', '')
);
INSERT INTO leased.channel DEFAULT VALUES;

-- Who waits for which lease, first come first served over all daemons: place tells the order. A row is
-- its daemon's, which alone deletes it, with the grant or when the waiter leaves; a waiter that comes to
-- another daemon with the same holder gets a row there too, with the same place.
CREATE SEQUENCE leased.place_seq AS bigint CACHE 1;
CREATE TABLE leased.waiters (
    name         text COLLATE "C" NOT NULL,
    place        bigint NOT NULL,
    daemon       bigint NOT NULL,
    holder_host  text NOT NULL,
    holder_pid   integer NOT NULL,
    holder_nonce bigint NOT NULL,
    principal    text NOT NULL,
    PRIMARY KEY (name, place, daemon),
    UNIQUE (name, holder_nonce, holder_pid, holder_host, principal, daemon)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Daemons on which somebody waits or watches. One that was not seen for the grace is dead, and so are its
-- waiters.
CREATE TABLE leased.daemons (
    id       bigint PRIMARY KEY,
    seen_at  timestamptz NOT NULL,
    watching boolean NOT NULL DEFAULT false -- every change of a lease is told by NOTIFY
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100);

CREATE VIEW leased.queue AS
SELECT w.name, w.place, w.daemon
  FROM leased.waiters w
  JOIN leased.daemons d ON d.id = w.daemon
 WHERE d.seen_at > now() - interval '5 seconds';

-- Whether somebody watches: whatever changes a lease looks here, in a snapshot that is younger than its
-- lock on the table of leases (server/watch.c says why).
CREATE VIEW leased.watchers AS
SELECT d.id FROM leased.daemons d WHERE d.watching AND d.seen_at > now() - interval '5 seconds';
