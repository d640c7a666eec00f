//go:build ignore

/* calm runs another mode at the lowest priority, so that it takes only what
 * nothing else wants, and by a clock that stands still while it must wait:
 *
 *	thread   on the CPU that it is on now, by the CPU time of its one thread
 *	process  by the CPU time of all its threads
 *	wall     by the clock on the wall, for what is spent in waiting */
#include "micro.h"
#include "place.h"

#include <sched.h>
#include <sys/resource.h>

static int run(int argc, char **argv)
{
	if (argc < 3)
		return usage(&calm_mode);
	if (!strcmp(argv[1], "thread"))
		pin(sched_getcpu()), measure_by(CLOCK_THREAD_CPUTIME_ID);
	else if (!strcmp(argv[1], "process"))
		measure_by(CLOCK_PROCESS_CPUTIME_ID);
	else if (strcmp(argv[1], "wall"))
		return usage(&calm_mode);
	if (setpriority(PRIO_PROCESS, 0, 19))
		fail("lower the priority");
	return run_mode(argc - 2, argv + 2);
}

const struct mode calm_mode = { "calm", "thread|process|wall MODE ...", run };
