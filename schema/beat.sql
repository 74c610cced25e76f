-- A daemon ($1) on which somebody waits is seen; whoever was not seen for the grace is dead, and its
-- waiters make room. After a pause of our own (an outage of the database, say) that cannot be told.
-- Returns whether we were alive for the others: when not, our waiters have lost their places.
WITH us AS (
    SELECT seen_at > now() - interval '5 seconds' AS fresh FROM leased.daemons WHERE id = $1::int8
), seen AS (
    UPDATE leased.daemons SET seen_at = now() WHERE id = $1::int8 RETURNING id
), dead AS (
    DELETE FROM leased.daemons
     WHERE id IN (SELECT d.id FROM leased.daemons d
                   WHERE d.seen_at < now() - interval '5 seconds' AND d.id <> $1::int8
                     AND (SELECT fresh FROM us)
                     FOR UPDATE SKIP LOCKED)
    RETURNING id
), gone AS (
    DELETE FROM leased.waiters w USING dead WHERE w.daemon = dead.id RETURNING w.name
)
SELECT EXISTS (SELECT FROM seen),
    (SELECT leased.notify_next(array_agg(r.name), array_agg(q.daemon))
       FROM (SELECT DISTINCT name FROM gone) r
      CROSS JOIN LATERAL (SELECT q.daemon FROM leased.queue q
                           WHERE q.name = r.name ORDER BY q.place LIMIT 1) q
     HAVING count(*) > 0)
