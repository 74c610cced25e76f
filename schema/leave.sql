-- One batch of waiters that left: the row of a place, or, where place is negative, all of ours ($3) before
-- -place, which nobody here knows of any more. Where the lease is free, the next in line is told.
WITH req AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::int8[]) AS r(name, place)
), gone AS (
    DELETE FROM leased.waiters w USING req r
     WHERE w.name = r.name
       AND (w.place = r.place OR (w.daemon = $3::int8 AND w.place < -r.place))
    RETURNING w.name, w.place
)
SELECT leased.notify_next(array_agg(r.name), array_agg(q.daemon))
  FROM (SELECT DISTINCT name FROM req) r
 CROSS JOIN LATERAL (SELECT q.daemon FROM leased.queue q
                      WHERE q.name = r.name
                        AND NOT EXISTS (SELECT FROM gone g WHERE g.name = q.name AND g.place = q.place)
                      ORDER BY q.place LIMIT 1) q
 WHERE NOT EXISTS (SELECT FROM leased.leases l WHERE l.name = r.name AND l.expires_at > now())
HAVING count(*) > 0
