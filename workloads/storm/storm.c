/*
 * storm makes one cheap system call as fast as it can, or at a given rate, under
 * a name of its own: the known cause of a system call storm.
 *
 *   cc -static -O2 -o storm storm.c
 *   storm --syscall NAME [--name COMM] [--seconds S] [--rate PER_SECOND] [--every S]
 *   storm --list
 *
 * It ends after S seconds (default: never) or at SIGTERM or SIGINT, and prints
 * one line of JSON: {"name":...,"syscall":...,"count":...,"seconds":...}. With
 * --every it prints the time of day and the count, "SECONDS COUNT", so often before.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static int word;
static unsigned cpu;
static struct timespec now;
static struct tms ticks;
static struct sysinfo info;
static struct utsname uts;
static struct rusage usage;

/* Every call does its work in the kernel; the vDSO answers none. */
static const struct call {
	const char *name;
	long nr, args[4];
} calls[] = {
	{ "getpid", SYS_getpid, { 0 } },
	{ "gettid", SYS_gettid, { 0 } },
	{ "getppid", SYS_getppid, { 0 } },
	{ "getuid", SYS_getuid, { 0 } },
	{ "geteuid", SYS_geteuid, { 0 } },
	{ "getgid", SYS_getgid, { 0 } },
	{ "getpgid", SYS_getpgid, { 0 } },
	{ "getsid", SYS_getsid, { 0 } },
	{ "getcpu", SYS_getcpu, { (long)&cpu } },
	{ "umask", SYS_umask, { 022 } },
	{ "sched_yield", SYS_sched_yield, { 0 } },
	{ "clock_gettime", SYS_clock_gettime, { CLOCK_MONOTONIC, (long)&now } },
	{ "futex", SYS_futex, { (long)&word, FUTEX_WAKE_PRIVATE, 1 } },
	{ "times", SYS_times, { (long)&ticks } },
	{ "sysinfo", SYS_sysinfo, { (long)&info } },
	{ "uname", SYS_uname, { (long)&uts } },
	{ "getrusage", SYS_getrusage, { RUSAGE_SELF, (long)&usage } },
};

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
	(void)sig;
	stopped = 1;
}

static double seconds_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double seconds(void)
{
	return seconds_of(CLOCK_MONOTONIC);
}

static void usage_error(const char *what, const char *value)
{
	fprintf(stderr, "storm: %s%s%s; see the comment on top of storm.c\n", what, value ? " " : "", value ? value : "");
	exit(4);
}

static double number(const char *option, const char *text)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v > 0))
		usage_error(option, "needs a number above 0");
	return v;
}

/* Printable names only: the output is JSON. */
static void check_name(const char *s)
{
	for (; *s; s++)
		if (*s < ' ' || *s > '~' || *s == '"' || *s == '\\')
			usage_error("--name", "takes printable ASCII without quotes");
}

int main(int argc, char **argv)
{
	const struct call *c = NULL;
	const char *name = "storm";
	double limit = 0, rate = 0, every = 0, told = 0, begin, spent;
	unsigned long long count = 0;
	struct sigaction sa = { .sa_handler = stop };
	char comm[16];
	size_t i;

	for (int a = 1; a < argc; a += 2) {
		if (!strcmp(argv[a], "--list")) {
			for (i = 0; i < sizeof calls / sizeof *calls; i++)
				puts(calls[i].name);
			return 0;
		}
		if (a + 1 == argc)
			usage_error("unknown option or no value:", argv[a]);
		if (!strcmp(argv[a], "--syscall")) {
			for (i = 0; i < sizeof calls / sizeof *calls; i++)
				if (!strcmp(calls[i].name, argv[a + 1]))
					c = &calls[i];
			if (!c)
				usage_error("no such call (try --list):", argv[a + 1]);
		} else if (!strcmp(argv[a], "--name")) {
			name = argv[a + 1];
			check_name(name);
		} else if (!strcmp(argv[a], "--seconds")) {
			limit = number(argv[a], argv[a + 1]);
		} else if (!strcmp(argv[a], "--rate")) {
			rate = number(argv[a], argv[a + 1]);
		} else if (!strcmp(argv[a], "--every")) {
			every = number(argv[a], argv[a + 1]);
		} else {
			usage_error("unknown option", argv[a]);
		}
	}
	if (!c)
		usage_error("--syscall NAME is missing", NULL);
	prctl(PR_SET_NAME, name);
	prctl(PR_GET_NAME, comm);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);

	begin = seconds();
	for (spent = 0; !stopped && (!limit || spent < limit); spent = seconds() - begin) {
		if (every && spent >= told) {
			printf("%.6f %llu\n", seconds_of(CLOCK_REALTIME), count);
			fflush(stdout);
			told = spent + every;
		}
		/* The clock is read through the vDSO, so the loop makes no other call. */
		int batch = rate ? 1 + rate / 1000 : 1000;

		for (int n = 0; n < batch && !stopped; n++, count++)
			syscall(c->nr, c->args[0], c->args[1], c->args[2], c->args[3]);
		if (rate) {
			double ahead = count / rate - (seconds() - begin);
			struct timespec nap = { ahead, (ahead - (long)ahead) * 1e9 };

			if (ahead > 0)
				nanosleep(&nap, NULL);
		}
	}
	spent = seconds() - begin;
	printf("{\"name\":\"%s\",\"syscall\":\"%s\",\"count\":%llu,\"seconds\":%.6f}\n", comm, c->name, count, spent);
	return 0;
}
