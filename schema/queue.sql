-- One batch of waiters that stand in line, in the order of their coming, at this daemon ($7). One that
-- stands there already, here or at another daemon, keeps its place; one that comes from the line of another
-- lease that it wants too brings its place along ($6, else 0). Returns, in that same order, the place;
-- whether it is sure; and whether this daemon was alive for the others until now.
-- The lock on all that hold the lease makes a release either see the new row, or be over when this returns;
-- one that is under way has its row locked, and then nothing is sure: ask for the place once more. A free
-- lease must not be locked, for the first in line is about to take it.
-- Another flight of this daemon may be writing the same row of its own: nobody waits for that. A daemon that
-- was taken for dead has missed changes, which the next beat must find out.
WITH here AS (
    UPDATE leased.daemons d
       SET seen_at = now(), watching = d.watching AND d.seen_at > now() - interval '5 seconds'
      FROM (SELECT x.ctid AS place FROM leased.daemons x WHERE x.id = $7::int8
               FOR NO KEY UPDATE SKIP LOCKED) q
     WHERE d.ctid = q.place
), begun AS (
    INSERT INTO leased.daemons (id, seen_at)
    SELECT $7::int8, now() WHERE NOT EXISTS (SELECT FROM leased.daemons d WHERE d.id = $7::int8)
        ON CONFLICT (id) DO NOTHING
), locked AS MATERIALIZED (
    SELECT l.name, l.token FROM leased.leases l
     WHERE l.name = ANY ($1::text[]) AND l.released_at IS NULL AND l.expires_at > now()
       FOR SHARE SKIP LOCKED
)
INSERT INTO leased.waiters AS w (name, place, daemon, holder_host, holder_pid, holder_nonce, principal)
SELECT r.name,
    coalesce((SELECT min(o.place) FROM leased.waiters o
               WHERE o.name = r.name AND o.holder_nonce = r.nonce AND o.holder_pid = r.pid
                 AND o.holder_host = r.host AND o.principal = r.principal),
        nullif(r.place, 0), nextval('leased.place_seq')),
    $7::int8, r.host, r.pid, r.nonce, r.principal
  FROM unnest($1::text[], $2::text[], $3::int4[], $4::int8[], $5::text[], $6::int8[])
       WITH ORDINALITY AS r(name, host, pid, nonce, principal, place, i)
 ORDER BY r.i
    ON CONFLICT (name, holder_nonce, holder_pid, holder_host, principal, daemon)
    DO UPDATE SET daemon = excluded.daemon
RETURNING w.place, w.holder_nonce,
    NOT EXISTS (SELECT FROM leased.leases x
                 WHERE x.name = w.name AND x.released_at IS NULL AND x.expires_at > now()
                   AND (x.name, x.token) NOT IN (SELECT name, token FROM locked)),
    EXISTS (SELECT FROM leased.daemons d
             WHERE d.id = $7::int8 AND d.seen_at > now() - interval '5 seconds')
