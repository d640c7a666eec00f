//go:build ignore

#include "micro.h"

#include <errno.h>
#include <stdarg.h>
#include <time.h>

static const struct mode *modes[] = {
	&null_mode,
	&pause_mode,
	&syscall_mode,
	&wakeup_mode,
	&memory_mode,
	&fault_mode,
	&futex_mode,
	&sampled_mode,
	&cpuid_mode,
	&exits_mode,
	&startup_mode,
	&first_touch_mode,
	&agent_mode,
	&capture_mode,
	&calm_mode,
	&has_mode,
	&ports_mode,
	&enclave_mode,
	&ask_mode,
};

_Noreturn void fail(const char *what)
{
	fprintf(stderr, "micro: %s: %s\n", what, strerror(errno));
	exit(1);
}

int usage(const struct mode *m)
{
	fprintf(stderr, "usage: micro %s %s\n", m->name, m->usage);
	return 2;
}

uint64_t number(const char *s, uint64_t least)
{
	char *end;
	errno = 0;
	uint64_t v = strtoull(s, &end, 10);
	if (errno || *s < '0' || *s > '9' || *end || v < least) {
		fprintf(stderr, "micro: \"%s\": want a whole number of at least %llu\n", s, (unsigned long long)least);
		exit(2);
	}
	return v;
}

static clockid_t ruler = CLOCK_MONOTONIC;

void measure_by(clockid_t clock) { ruler = clock; }

uint64_t now(void)
{
	struct timespec t;
	clock_gettime(ruler, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

int run_mode(int argc, char **argv)
{
	for (size_t i = 0; argc > 0 && i < sizeof modes / sizeof *modes; i++)
		if (!strcmp(argv[0], modes[i]->name))
			return modes[i]->run(argc, argv);
	fprintf(stderr, "usage: micro MODE ...\n");
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		fprintf(stderr, "  %s %s\n", modes[i]->name, modes[i]->usage);
	return 2;
}

int main(int argc, char **argv) { return run_mode(argc - 1, argv + 1); }
