-- One batch of waiters that left this daemon ($3): the row of a place, or, where place is negative, all
-- rows before -place, which nobody here knows of any more. Where nobody holds the lease the next in line is
-- told. Returns those that are done, by position (from 1); a lease that is held, and locked, may be just
-- released, by somebody who has looked at the line already: leave once more (see queue.sql).
WITH req AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::int8[]) WITH ORDINALITY AS r(name, place, i)
), held AS MATERIALIZED (
    SELECT l.name FROM leased.leases l
     WHERE l.name = ANY ($1::text[]) AND l.released_at IS NULL AND l.expires_at > now()
), locked AS MATERIALIZED (
    SELECT l.name FROM leased.leases l
     WHERE l.name = ANY ($1::text[]) AND l.released_at IS NULL AND l.expires_at > now()
       FOR SHARE SKIP LOCKED
), done AS MATERIALIZED (
    SELECT * FROM req
     WHERE name NOT IN (SELECT name FROM held) OR name IN (SELECT name FROM locked)
), gone AS (
    DELETE FROM leased.waiters w USING done r
     WHERE w.name = r.name AND w.daemon = $3::int8 AND (w.place = r.place OR w.place < -r.place)
    RETURNING w.name
)
SELECT i, (SELECT count(*) FROM gone), (SELECT leased.notify_next(array_agg(name), 0)
                                          FROM done
                                         WHERE name NOT IN (SELECT name FROM held)
                                           AND (SELECT count(*) FROM gone) >= 0
                                        HAVING count(*) > 0)::text
  FROM done
