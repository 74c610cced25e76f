-- The version of the schema, and the rights in it that the daemon's statements need and this role lacks
-- (NULL: none). What does not exist is no matter of rights but of the version.
SET LOCAL search_path = pg_catalog, pg_temp;
WITH needed (thing, rights) AS (VALUES
    ('leased.leases', 'SELECT INSERT UPDATE DELETE'),
    ('leased.events', 'SELECT INSERT'),
    ('leased.cluster', 'SELECT'),
    ('leased.slots', 'SELECT INSERT UPDATE DELETE'),
    ('leased.waiters', 'SELECT INSERT UPDATE DELETE'),
    ('leased.daemons', 'SELECT INSERT UPDATE DELETE'),
    ('leased.queue', 'SELECT'),
    ('leased.watchers', 'SELECT'),
    ('leased.token_seq', 'USAGE'),
    ('leased.place_seq', 'USAGE'),
    ('leased.epoch_base()', 'EXECUTE'),
    ('leased.timeline()', 'EXECUTE'),
    ('leased.trim(bigint,bigint)', 'EXECUTE'),
    ('leased.settings', 'SELECT'),
    ('leased.channel', 'SELECT'),
    ('leased.next_run(timestamptz,bigint)', 'EXECUTE'),
    ('leased.is_done(text,text,bigint)', 'EXECUTE'),
    ('leased.complete_slot(leased.leases,integer,timestamptz)', 'EXECUTE'),
    ('leased.has_room(text,integer)', 'EXECUTE'),
    ('leased.has_line(text[],bigint)', 'EXECUTE'),
    ('leased.lock_first(text,text,integer,bigint,text)', 'EXECUTE'),
    ('leased.lock_over(text,integer,timestamptz)', 'EXECUTE'),
    ('leased.put_grant(leased.leases)', 'EXECUTE'),
    ('leased.take(text[],text,integer,bigint,text,bigint,bigint,text,bigint,text,boolean,bigint,bigint,integer)', 'EXECUTE'),
    ('leased.tell(text[])', 'EXECUTE'),
    ('leased.change_line(text,leased.leases)', 'EXECUTE'),
    ('leased.tell_change(text,leased.leases)', 'EXECUTE'),
    ('leased.notify_next(text[],bigint)', 'EXECUTE'),
    ('leased.notify_stolen(text,bigint,text,text,text)', 'EXECUTE')
), lacking AS (
    SELECT format('%s ON %s', privilege, thing) AS privilege, row_number() OVER () AS n, count(*) OVER () AS total
      FROM needed CROSS JOIN unnest(string_to_array(rights, ' ')) AS privilege
     WHERE NOT CASE privilege
               WHEN 'EXECUTE' THEN has_function_privilege(to_regprocedure(thing), privilege)
               WHEN 'USAGE' THEN has_sequence_privilege(to_regclass(thing), privilege)
               ELSE has_table_privilege(to_regclass(thing), privilege) END
)
-- As many as fit a sentence.
SELECT (SELECT coalesce(max(version), 0) FROM leased.schema_version),
    (SELECT string_agg(privilege, ', ') || CASE WHEN max(total) > 6 THEN format(', and %s more', max(total) - 6) ELSE '' END
       FROM lacking WHERE n <= 6)
