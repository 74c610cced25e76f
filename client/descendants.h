/*
 * descendants.h - signals every process below this one, found through /proc, wherever it has hidden:
 * other process groups, other sessions, double forks. The caller is a child subreaper
 * (PR_SET_CHILD_SUBREAPER), so whatever loses its parent becomes its own child and stays below it.
 * One thread at a time; allocates only what opendir does.
 */
#ifndef DESCENDANTS_H
#define DESCENDANTS_H

#include <stdint.h>
#include <sys/types.h>

/* When pid started, in the kernel's clock ticks since boot. 0, or -1 when there is no such process. */
int descendants_start_time(pid_t pid, uint64_t *ret_ticks);

/*
 * Sends signo to every descendant of the calling process. Left out are children (and what is below
 * them) that started before `since`, in ticks, and members of process group `but_group`; 0 leaves
 * out none. Returns how many processes were signalled that were not zombies, or -1 when /proc cannot
 * be read. A process that forks meanwhile can escape one call, so a caller who must be sure repeats
 * it until nothing is left.
 */
int descendants_signal(int signo, uint64_t since, pid_t but_group);

/*
 * Sends SIGKILL to the children of the calling process and theirs, a few generations deep: far
 * quicker than a walk through /proc, so that it catches jobs that flee by forking and exiting in a
 * loop. Such a chase is won by trying again at once, not for sure at the first try. Does nothing on
 * kernels that do not list children; not for processes with threads.
 */
void descendants_kill_nearest(void);

#endif
