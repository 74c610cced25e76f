"""What must be true after a chaos run, from the database's history and from what the programs believed."""
from place import TTL_MS

MARGIN_NS = 2 * TTL_MS * 1000000
ENDED = "SELECT name, token, acquired_at, ended_at FROM leased.events"
LASTING = "SELECT name, token, acquired_at, expires_at FROM leased.leases WHERE released_at IS NULL"


def rising(rows, what, excused):
    """In the order of the tokens each grant begins after the one before has ended."""
    found, rows = [], sorted(rows)
    for (name, token, begin, end), (next_name, later, next_begin, _) in zip(rows, rows[1:]):
        if name != next_name:
            continue
        if token == later:
            found.append(f"{what}: {name}: token {token} was given twice")
        elif next_begin < end and not excused(begin, end, next_begin):
            found.append(f"{what}: {name}: token {token} lasted until {end}, and {later} began at {next_begin}")
    return found


def violations(site):
    with site.admin() as db:
        ended = db.execute(ENDED).fetchall()
        granted = ended + db.execute(LASTING).fetchall()
    beliefs = site.beliefs()

    # The database's own time goes back with its clock: there only the tokens tell the order.
    def clock_went_back(begin, end, next_begin):
        return site.went_back_s and (end - next_begin).total_seconds() <= site.went_back_s + TTL_MS / 1000

    # A clock that is put ahead ends leases too early for those who count by another one: there only the token protects.
    def clock_went_ahead(begin, end, next_begin):
        return any(next_begin - MARGIN_NS < at < end + MARGIN_NS for at in site.forward)
    found = rising(granted, "database", clock_went_back) + rising(set(beliefs), "programs", clock_went_ahead)
    known = {row[:2] for row in granted}
    found += [f"programs: {name}: token {token} is not in the history" for name, token, _, _ in beliefs if (name, token) not in known]
    for node in site.primary, site.standby:
        if "deadlock detected" in node.log.read_text():
            found.append(f"{node.log}: deadlock detected")
    return found


def longest_pause(beliefs, begin_ns, end_ns):
    """The longest time in which no program got anything, in seconds."""
    moments = sorted([begin_ns, end_ns, *(begin for _, _, begin, _ in beliefs if begin_ns < begin < end_ns)])
    return max(after - before for before, after in zip(moments, moments[1:])) / 1e9
