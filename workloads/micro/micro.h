/* The tiny worker: one program with one mode per file, so no language runtime
 * is measured; static, so that no dynamic linker is, or linked to the GNU C
 * library, for runtimes that replace it. */
#ifndef MICRO_H
#define MICRO_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct mode {
	const char *name, *usage;
	/* argv[0] is the mode's name; returns the exit status. */
	int (*run)(int argc, char **argv);
};

/* run_mode runs the mode that argv[0] names and returns its exit status, or
 * lists the modes. */
int run_mode(int argc, char **argv);

/* fail prints "micro: WHAT: errno's text" to stderr and ends with status 1. */
_Noreturn void fail(const char *what);

/* usage prints how to call a mode and returns the exit status for that. */
int usage(const struct mode *m);

/* number reads a whole number not below least, or ends with status 2. */
uint64_t number(const char *s, uint64_t least);

/* now is CLOCK_MONOTONIC in nanoseconds, or the clock set by measure_by. */
uint64_t now(void);
void measure_by(clockid_t clock);

/* say prints a line and flushes, so the harness can time its arrival. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

extern const struct mode null_mode, pause_mode, syscall_mode, wakeup_mode, memory_mode, startup_mode;
extern const struct mode first_touch_mode, fault_mode, futex_mode, sampled_mode, cpuid_mode, exits_mode;
extern const struct mode agent_mode, capture_mode, calm_mode, has_mode, ports_mode, enclave_mode, ask_mode;

#endif
