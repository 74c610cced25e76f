-- A daemon ($1) on which somebody waits, or watches ($2), is seen; whoever was not seen for the grace is
-- dead, and its waiters make room, but not while their lease may be just released (see queue.sql): the
-- next time then, and the daemon itself goes when it has none left. After a pause of our own (an outage
-- of the database, say) that cannot be told. Returns whether we were alive for the others until now: when
-- not, releases have passed our waiters over, and their places may be lost; and whether every change was
-- told since the last beat.
WITH us AS (
    SELECT seen_at > now() - interval '5 seconds' AS fresh, watching
      FROM leased.daemons WHERE id = $1::int8
), seen AS (
    UPDATE leased.daemons SET seen_at = now(), watching = $2::bool WHERE id = $1::int8 RETURNING id
), begun AS (
    INSERT INTO leased.daemons (id, seen_at, watching)
    SELECT $1::int8, now(), true WHERE $2::bool AND NOT EXISTS (SELECT FROM seen)
        ON CONFLICT (id) DO UPDATE SET watching = true
), dead AS MATERIALIZED (
    SELECT d.id FROM leased.daemons d
     WHERE d.seen_at < now() - interval '5 seconds' AND d.id <> $1::int8 AND (SELECT fresh FROM us)
       FOR UPDATE SKIP LOCKED
), line AS MATERIALIZED (
    SELECT w.name, w.place, w.daemon,
        EXISTS (SELECT FROM leased.leases l
                 WHERE l.name = w.name AND l.released_at IS NULL AND l.expires_at > now()) AS held
      FROM leased.waiters w WHERE w.daemon IN (SELECT id FROM dead)
), locked AS MATERIALIZED (
    SELECT l.name, l.token FROM leased.leases l
     WHERE l.name = ANY (ARRAY(SELECT name FROM line WHERE held))
       AND l.released_at IS NULL AND l.expires_at > now()
       FOR SHARE SKIP LOCKED
), gone AS (
    DELETE FROM leased.waiters w
     USING (SELECT x.ctid AS at
              FROM line
              JOIN leased.waiters x ON x.name = line.name AND x.place = line.place AND x.daemon = line.daemon
             WHERE NOT line.held
                OR NOT EXISTS (SELECT FROM leased.leases l
                                WHERE l.name = line.name AND l.released_at IS NULL AND l.expires_at > now()
                                  AND (l.name, l.token) NOT IN (SELECT name, token FROM locked))
               FOR UPDATE OF x SKIP LOCKED) q
     WHERE w.ctid = q.at
    RETURNING w.name
), buried AS (
    DELETE FROM leased.daemons d
     WHERE d.id IN (SELECT id FROM dead) AND d.id NOT IN (SELECT daemon FROM line)
)
SELECT coalesce((SELECT fresh FROM us), false), coalesce((SELECT fresh AND watching FROM us), false),
    (SELECT leased.notify_next(array_agg(name), 0) FROM gone HAVING count(*) > 0)::text
