-- One batch of leases, by name and token, that a watch knows to expire about now. Returns, by position
-- (from 1), those that nobody has released or taken over, with their expiry and whether it is certain:
-- the row was locked after its expiry, and whatever extends or releases a lease looks at the clock
-- behind that lock. A row that somebody else has locked is not certain: ask again.
WITH req AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::int8[]) WITH ORDINALITY AS r(name, token, i)
), over AS MATERIALIZED (
    SELECT r.i
      FROM req r JOIN leased.leases l ON l.name = r.name AND l.token = r.token
     WHERE l.released_at IS NULL AND l.expires_at <= clock_timestamp()
       FOR SHARE OF l SKIP LOCKED
)
SELECT r.i, l.expires_at, clock_timestamp(), r.i IN (SELECT i FROM over)
  FROM req r JOIN leased.leases l ON l.name = r.name AND l.token = r.token
 WHERE l.released_at IS NULL
