-- One batch of waiters that left this daemon ($3): the row of a place, or, where place is negative, all
-- rows before -place, which nobody here knows of any more. Where nobody holds the lease, or somebody who
-- would let others in, the next in line is told. A row that another flight of this daemon deletes is skipped,
-- here and everywhere: who waits for it could be waited for. Returns those that are done, by position
-- (from 1); a lease that is held, and locked, may be just released, by somebody who has looked at the line
-- already: leave once more (see queue.sql).
WITH req AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::int8[]) WITH ORDINALITY AS r(name, place, i)
), held AS MATERIALIZED (
    SELECT l.name, l.token, l.max_holders FROM leased.leases l
     WHERE l.name = ANY ($1::text[]) AND l.released_at IS NULL AND l.expires_at > now()
), locked AS MATERIALIZED (
    SELECT l.name, l.token FROM leased.leases l
     WHERE l.name = ANY ($1::text[]) AND l.released_at IS NULL AND l.expires_at > now()
       FOR SHARE SKIP LOCKED
), done AS MATERIALIZED (
    SELECT * FROM req
     WHERE NOT EXISTS (SELECT FROM held h
                        WHERE h.name = req.name
                          AND (h.name, h.token) NOT IN (SELECT name, token FROM locked))
), gone AS (
    DELETE FROM leased.waiters w
     USING (SELECT x.ctid AS at
              FROM done r JOIN leased.waiters x ON x.name = r.name AND x.place = r.place
             WHERE r.place > 0 AND x.daemon = $3::int8 FOR UPDATE OF x SKIP LOCKED) q
     WHERE w.ctid = q.at
    RETURNING w.name
), swept AS (
    DELETE FROM leased.waiters w
     USING (SELECT x.ctid AS at
              FROM done r JOIN leased.waiters x ON x.name = r.name AND x.place < -r.place
             WHERE r.place < 0 AND x.daemon = $3::int8 FOR UPDATE OF x SKIP LOCKED) q
     WHERE w.ctid = q.at
    RETURNING w.name
)
SELECT i, (SELECT count(*) FROM gone) + (SELECT count(*) FROM swept), (SELECT leased.notify_next(array_agg(name), 0)
                                          FROM done
                                         WHERE name NOT IN (SELECT name FROM held WHERE max_holders = 1)
                                           AND (SELECT count(*) FROM gone) >= 0
                                           AND (SELECT count(*) FROM swept) >= 0
                                        HAVING count(*) > 0)::text
  FROM done
