//go:build ignore

/* pause sleeps until it is told to end: the first process of a container
 * that is kept between jobs. As such it has no default actions for signals,
 * and orphans of the jobs become its children, which it ignores. */
#include "micro.h"

#include <signal.h>

static int run(int argc, char **argv)
{
	(void)argc, (void)argv;
	sigset_t end;
	int got;
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL);
	signal(SIGCHLD, SIG_IGN);
	sigwait(&end, &got);
	return 0;
}

const struct mode pause_mode = { "pause", "", run };
