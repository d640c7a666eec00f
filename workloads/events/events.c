/*
 * events makes a known number of kernel events, as the external count against
 * which the BPF programs are tested.
 *
 *   cc -static -O2 -pthread -o events events.c
 *   events [--comm NAME] [--cpu N] [--threads N] [--wait] ACTION
 *
 *   getppid N          N system calls in each thread
 *   rename N COMM      N getppid, a rename to COMM, N getppid
 *   faults CAUSE N     N page faults: read, write, write_protection, protection,
 *                      instruction_fetch, kernel (the kernel writes to a page that is not there)
 *   switches N         N round trips through a pair of pipes between two threads on one CPU
 *   cpu MS             MS milliseconds of CPU time
 *   sleeps US N        N nanosleep(2) of US microseconds
 *   reads N            N pread(2) of the same cached page of a file
 *   children CALLS N   N children one after another, each with a name of its own (NAME
 *                      and a number) that makes CALLS getppid
 *
 * With --wait it says "ready" and starts at the next line of input, and after
 * the events waits for another, so that an observer can read between. It prints
 * one line of JSON with what it did and, over the events alone, the deltas of
 * getrusage(2) and of /proc/self/status (all threads).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *action;
static long n;
static int cpu = -1, threads = 1;
static size_t page;

static void die(const char *what)
{
	fprintf(stderr, "events: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void usage_error(const char *what)
{
	fprintf(stderr, "events: %s; see the comment on top of events.c\n", what);
	exit(4);
}

static long number(const char *text)
{
	char *end;
	long v;

	errno = 0;
	v = text ? strtol(text, &end, 10) : 0;
	if (!text || errno || end == text || *end || v < 0)
		usage_error("a number is missing or wrong");
	return v;
}

static void pin(int to)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(to, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		die("set affinity");
}

/* A call that does nothing, without libc's function around it, whose time would be the program's own. */
static inline void null_call(void)
{
#ifdef __x86_64__
	long r = SYS_getppid;

	__asm__ volatile("syscall" : "+a"(r) : : "rcx", "r11", "memory");
#else
	syscall(SYS_getppid);
#endif
}

static void *getppids(void *unused)
{
	for (long i = 0; i < n; i++)
		null_call();
	return unused;
}

/* In threads that exist before the events are counted, so that starting them is not. */
static pthread_barrier_t begin, end;

static void *worker(void *unused)
{
	pthread_barrier_wait(&begin);
	getppids(NULL);
	pthread_barrier_wait(&end);
	/* The others stay until everything is counted. */
	if (unused)
		pause();
	return unused;
}

static sigjmp_buf back;

static void on_signal(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

/* One page at a time, never touched before: neighbours would be filled along with it (fault-around, huge pages). */
static unsigned char *area(long pages)
{
	unsigned char *p = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("map memory");
	madvise(p, pages * page, MADV_NOHUGEPAGE);
	return p;
}

static unsigned char *target;
static int zero_fd = -1;

static void prepare_faults(const char *cause)
{
	struct sigaction sa = { .sa_handler = on_signal };

	if (n == 0)
		usage_error("faults need a number above 0");
	if (!strcmp(cause, "read") || !strcmp(cause, "write") || !strcmp(cause, "kernel")) {
		target = area(n);
		zero_fd = open("/dev/zero", O_RDONLY);
	} else if (!strcmp(cause, "write_protection")) {
		/* Reading maps the zero page read-only; the write that follows is the fault. */
		target = area(n);
		for (long i = 0; i < n; i++)
			(void)*(volatile unsigned char *)(target + i * page);
	} else if (!strcmp(cause, "protection") || !strcmp(cause, "instruction_fetch")) {
		/* A jump into data: to a page that is there but not executable, or to none at all. */
		target = area(1);
		*target = 0;
		sa.sa_flags = SA_NODEFER;
		sigaction(SIGSEGV, &sa, NULL);
		if (!strcmp(cause, "instruction_fetch"))
			munmap(target, page);
	} else {
		usage_error("unknown cause");
	}
}

static void make_faults(const char *cause)
{
	volatile long i;

	if (!strcmp(cause, "read"))
		for (i = 0; i < n; i++)
			(void)*(volatile unsigned char *)(target + i * page);
	else if (!strcmp(cause, "write") || !strcmp(cause, "write_protection"))
		for (i = 0; i < n; i++)
			*(volatile unsigned char *)(target + i * page) = 1;
	else if (!strcmp(cause, "kernel"))
		for (i = 0; i < n; i++) {
			if (read(zero_fd, target + i * page, 1) != 1)
				die("read /dev/zero");
		}
	else
		for (i = 0; i < n; i++)
			if (!sigsetjmp(back, 0))
				((void (*)(void))target)();
}

static int there[2], here[2];

static void *echo(void *unused)
{
	char c;

	while (read(there[0], &c, 1) == 1)
		if (write(here[1], &c, 1) != 1)
			die("write to pipe");
	return unused;
}

static void ping_pong(void)
{
	char c = 0;

	for (long i = 0; i < n; i++)
		if (write(there[1], &c, 1) != 1 || read(here[0], &c, 1) != 1)
			die("use pipes");
}

static void burn(void)
{
	struct timespec t;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < n);
}

static void sleeps(long us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	for (long i = 0; i < n; i++)
		if (syscall(SYS_nanosleep, &t, NULL))
			die("sleep");
}

static void reads(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	char buffer[4096];

	for (long i = 0; i < n; i++)
		if (pread(fd, buffer, sizeof buffer, 0) != sizeof buffer)
			die("read");
	close(fd);
}

static void children(long calls, const char *name)
{
	char own[32];
	int status;

	for (long i = 0; i < n; i++) {
		pid_t child = fork();

		if (child < 0)
			die("fork");
		if (!child) {
			snprintf(own, sizeof own, "%s%ld", name, i);
			prctl(PR_SET_NAME, own);
			for (long k = 0; k < calls; k++)
				syscall(SYS_getppid);
			_exit(0);
		}
		if (waitpid(child, &status, 0) != child || status)
			die("wait for child");
	}
}

struct counts {
	struct rusage usage;
	long voluntary, involuntary;
};

static long status_field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? atol(at + strlen(name)) : 0;
}

/* Switches of all threads: /proc/PID/status only has those of one. */
static struct counts counted(void)
{
	struct counts c = { 0 };
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;

	if (!d)
		die("open /proc/self/task");
	while ((e = readdir(d))) {
		char path[300], text[8192];
		ssize_t len;
		int fd;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
		fd = open(path, O_RDONLY);
		len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
		if (len < 0)
			die(path);
		close(fd);
		text[len] = 0;
		c.voluntary += status_field(text, "\nvoluntary_ctxt_switches:");
		c.involuntary += status_field(text, "\nnonvoluntary_ctxt_switches:");
	}
	closedir(d);
	getrusage(RUSAGE_SELF, &c.usage);
	return c;
}

static double cpu_seconds(const struct rusage *u)
{
	return u->ru_utime.tv_sec + u->ru_stime.tv_sec + (u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

static void go_ahead(const char *say)
{
	char line[16];

	puts(say);
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		exit(0);
}

int main(int argc, char **argv)
{
	struct counts before, after;
	const char *detail = "", *name = "events";
	int wait = 0, a = 1;
	pthread_t t;

	page = sysconf(_SC_PAGESIZE);
	for (; a < argc && !strncmp(argv[a], "--", 2); a++) {
		if (!strcmp(argv[a], "--wait"))
			wait = 1;
		else if (!strcmp(argv[a], "--comm") && a + 1 < argc)
			name = argv[++a];
		else if (!strcmp(argv[a], "--cpu"))
			cpu = number(argv[++a]);
		else if (!strcmp(argv[a], "--threads"))
			threads = number(argv[++a]);
		else
			usage_error("unknown option");
	}
	if (a == argc)
		usage_error("what to do is missing");
	action = argv[a++];
	if (!strcmp(action, "faults") || !strcmp(action, "sleeps") || !strcmp(action, "children")) {
		if (a == argc)
			usage_error("the cause, the time or the number of calls is missing");
		detail = argv[a++];
	}
	n = number(argv[a++]);
	if (!strcmp(action, "rename")) {
		if (a == argc)
			usage_error("the new name is missing");
		detail = argv[a++];
	}
	prctl(PR_SET_NAME, name);
	if (cpu >= 0)
		pin(cpu);

	pthread_barrier_init(&begin, NULL, threads);
	pthread_barrier_init(&end, NULL, threads);
	if (!strcmp(action, "getppid")) {
		for (int i = 1; i < threads; i++)
			if (pthread_create(&t, NULL, worker, &t))
				die("start thread");
	} else if (!strcmp(action, "switches")) {
		if (pipe(there) || pipe(here))
			die("make pipes");
		if (cpu < 0)
			pin(sched_getcpu());
		if (pthread_create(&t, NULL, echo, NULL))
			die("start thread");
	} else if (!strcmp(action, "faults")) {
		prepare_faults(detail);
	} else if (!strcmp(action, "sleeps") || !strcmp(action, "children")) {
		number(detail);
	} else if (strcmp(action, "reads") && strcmp(action, "rename") && strcmp(action, "cpu")) {
		usage_error("unknown action");
	}
	/* Once before it counts: what the first call touches is in memory then. */
	counted();
	if (wait)
		go_ahead("ready");
	before = counted();
	if (!strcmp(action, "getppid")) {
		worker(NULL);
	} else if (!strcmp(action, "rename")) {
		getppids(NULL);
		prctl(PR_SET_NAME, detail);
		getppids(NULL);
	} else if (!strcmp(action, "faults")) {
		make_faults(detail);
	} else if (!strcmp(action, "switches")) {
		ping_pong();
	} else if (!strcmp(action, "reads")) {
		reads();
	} else if (!strcmp(action, "sleeps")) {
		sleeps(number(detail));
	} else if (!strcmp(action, "children")) {
		children(number(detail), name);
	} else {
		burn();
	}
	after = counted();
	printf("{\"action\":\"%s\",\"detail\":\"%s\",\"n\":%ld,\"threads\":%d,\"pid\":%d,"
	       "\"minor_faults\":%ld,\"major_faults\":%ld,\"voluntary\":%ld,\"involuntary\":%ld,\"cpu_seconds\":%.6f}\n",
	       action, detail, n, threads, getpid(), after.usage.ru_minflt - before.usage.ru_minflt,
	       after.usage.ru_majflt - before.usage.ru_majflt, after.voluntary - before.voluntary,
	       after.involuntary - before.involuntary, cpu_seconds(&after.usage) - cpu_seconds(&before.usage));
	fflush(stdout);
	if (wait)
		go_ahead("done");
	return 0;
}
