/* Timed windows, shared by the modes that measure a cost per operation. */
#ifndef MEASURE_H
#define MEASURE_H

#include "micro.h"

/* A load is the repeated operation. */
struct load {
	/* operate does n operations and returns how many of them failed. */
	uint64_t (*operate)(uint64_t n);
	/* renew prepares the operations of one stretch, outside its time;
	 * NULL if nothing is used up. */
	void (*renew)(void);
	/* stretch is the number of operations per renewal; 0: any number. */
	uint64_t stretch;
};

struct tally {
	uint64_t operations, wrong;
};

/* WINDOW_ARGS is the usage text of measure's arguments. */
#define WINDOW_ARGS "WINDOWS MILLISECONDS OPERATIONS WARMUP"
enum { window_args = 4 };

/* measure works through WINDOWS windows of OPERATIONS operations each or, when
 * that is 0, of as many as take about MILLISECONDS on this program's clock, after
 * at least WARMUP milliseconds of the same that do not count. So that the harness
 * can time each part of a window by its own clock, it prints
 *
 *	begin WINDOW
 *	end WINDOW OPERATIONS NANOSECONDS
 *
 * around it, NANOSECONDS being this program's view. */
struct tally measure(const struct load *l, char **argv);

/* finish prints the last line, which marks the output as complete. */
void finish(struct tally t);

/* say_latencies sorts n times in nanoseconds and prints each with its number, and how many
 * times a clock went backwards. */
void say_latencies(uint64_t *latency, uint64_t n, uint64_t backwards);

/* map returns bytes of fresh zeroed memory or ends the program. */
void *map(size_t bytes);

/* arithmetic is start + (start + step) + ..., n terms, modulo 2^64. */
uint64_t arithmetic(uint64_t n, uint64_t step, uint64_t start);

#endif
