//go:build ignore

/* calm runs another mode at the given priority (nice(2): 19 takes only what
 * nothing else wants) and by a clock that stands still while it must wait:
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
	if (argc < 4)
		return usage(&calm_mode);
	int nice = number(argv[1], 0);
	if (!strcmp(argv[2], "thread"))
		pin(sched_getcpu()), measure_by(CLOCK_THREAD_CPUTIME_ID);
	else if (!strcmp(argv[2], "process"))
		measure_by(CLOCK_PROCESS_CPUTIME_ID);
	else if (strcmp(argv[2], "wall"))
		return usage(&calm_mode);
	if (nice && setpriority(PRIO_PROCESS, 0, nice))
		fail("lower the priority");
	return run_mode(argc - 3, argv + 3);
}

const struct mode calm_mode = { "calm", "NICE thread|process|wall MODE ...", run };
