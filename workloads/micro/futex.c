//go:build ignore

/* futex tells what waking costs apart from what the calls cost that do it.
 *
 *	calls  a wake-up that finds nobody and a wait that need not wait, as one operation
 *	wake   a wake-up of a thread that sleeps
 *
 * wake times each call, as the thread must go to sleep again in between, and a
 * wake-up that finds nobody after it, in which the clock's cost is too. For each
 * window it prints
 *
 *	wake OPERATIONS NANOSECONDS NANOSECONDS
 *
 * with the sums of the two. */
#include "measure.h"
#include "place.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of linux/futex.h, which comes with the kernel and not with every C library. */
enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 };

/* The words are never written: waiting asks for 0, and is refused for
 * 1. */
static uint32_t bell __attribute__((aligned(128))), nobody __attribute__((aligned(128)));

static long wake(uint32_t *word)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static uint64_t calls(uint64_t n)
{
	uint64_t wrong = 0;
	while (n--) {
		wrong += wake(&nobody) != 0;
		wrong += syscall(SYS_futex, &nobody, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0) != -1 || errno != EAGAIN;
	}
	return wrong;
}

static void *sleeper(void *cpu)
{
	pin(*(int *)cpu);
	for (;;)
		syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	return NULL;
}

enum { settle = 20000 }; /* nanoseconds until a woken thread sleeps again */

static void wake_windows(const char *where, uint64_t windows, uint64_t n)
{
	int cpu[2];
	pthread_t thread;
	place(where, cpu);
	errno = pthread_create(&thread, NULL, sleeper, &cpu[1]);
	if (errno)
		fail("start a thread");
	pin(cpu[0]);
	measure_by(CLOCK_THREAD_CPUTIME_ID); /* a preemption is not part of a call */
	uint64_t total = 0;
	for (uint64_t w = 0; w < windows; w++) {
		uint64_t woke = 0, none = 0, done = 0;
		while (done < n) {
			if (cpu[0] == cpu[1]) /* it needs our CPU */
				nanosleep(&(struct timespec){ .tv_nsec = settle }, NULL);
			else
				for (uint64_t from = now(); now() - from < settle;)
					;
			uint64_t a = now();
			long found = wake(&bell);
			uint64_t b = now();
			wake(&nobody);
			uint64_t c = now();
			if (found == 1)
				woke += b - a, none += c - b, done++;
		}
		say("wake %llu %llu %llu", (unsigned long long)n, (unsigned long long)woke, (unsigned long long)none);
		total += n;
	}
	finish((struct tally){ total, 0 });
}

static int run(int argc, char **argv)
{
	if (argc == 2 + window_args && !strcmp(argv[1], "calls"))
		finish(measure(&(struct load){ .operate = calls }, argv + 2));
	else if (argc == 5 && !strcmp(argv[1], "wake") && (!strcmp(argv[2], "same") || !strcmp(argv[2], "cross")))
		wake_windows(argv[2], number(argv[3], 1), number(argv[4], 1));
	else
		return usage(&futex_mode);
	return 0;
}

const struct mode futex_mode = { "futex", "calls " WINDOW_ARGS " | wake same|cross WINDOWS OPERATIONS", run };
