-- One batch of releases: sorted by name, each claim once. Returns those released, by position (from 1).
-- The row keeps its holder, so that a repeated release can be told from a wrong one. Undone: nothing was
-- done under the lease, so that its slot stays open and it is no run that `every` counts. Other daemons
-- than $9 hear of it when the first in line waits there, and all when somebody watches. Whether the lease is
-- held still is decided behind all waiting, as in renew.sql; it ends when the flight began, so that the next
-- one is granted in the same flight.
WITH watched AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM leased.watchers) AS yes
), released AS (
    UPDATE leased.leases l
       SET released_at = now(),
           expires_at = greatest(now(), l.acquired_at + l.min_hold_ms * interval '1 millisecond'),
           ran_at = CASE WHEN q.undone OR l.max_holders > 1 THEN l.ran_at ELSE l.acquired_at END
      FROM (SELECT x.ctid AS place, r.i, r.exit_status, r.undone
              FROM unnest($1::text[], $2::int8[], $3::text[], $4::int4[], $5::int8[], $6::text[],
                          $7::int4[], $8::bool[])
                   WITH ORDINALITY AS r(name, token, host, pid, nonce, principal, exit_status, undone, i)
              JOIN leased.leases x ON x.name = r.name
             WHERE x.token = r.token AND x.holder_nonce = r.nonce AND x.holder_pid = r.pid
               AND x.holder_host = r.host AND x.principal = r.principal
               AND x.released_at IS NULL AND x.expires_at > clock_timestamp()
               FOR NO KEY UPDATE OF x SKIP LOCKED) q
     WHERE l.ctid = q.place AND l.expires_at > clock_timestamp()
    RETURNING q.i, q.exit_status, l.name, l.token, l.holder_host, l.holder_pid, l.holder_nonce,
        l.principal, l.acquired_at, l.slot IS NOT NULL AND NOT q.undone AS has_slot,
        CASE WHEN l.slot IS NOT NULL AND NOT q.undone THEN l END AS lease,
        CASE WHEN (SELECT yes FROM watched) THEN leased.change_line('r', l) END AS line
), ended AS (
    INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce, principal,
        acquired_at, ended_at, exit_status)
    SELECT name, token, 'released', holder_host, holder_pid, holder_nonce, principal, acquired_at,
        now(), exit_status
      FROM released WHERE $10::bool -- a history is kept
)
SELECT i, (SELECT leased.notify_next(array_agg(name), $9::int8) FROM released HAVING count(*) > 0)::text,
    CASE WHEN (SELECT yes FROM watched)
         THEN (SELECT leased.tell(array_agg(line)) FROM released)::text END,
    CASE WHEN has_slot THEN leased.complete_slot(lease, exit_status, now()) END
  FROM released
