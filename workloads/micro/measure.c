//go:build ignore

#include "measure.h"

#include <sys/mman.h>

/* A window is cut into parts, so an interruption distorts one of them but
 * not the median of the parts. */
enum { parts = 5 };

/* work does n operations in equal parts and adds to t. With a window of 0 or
 * more it prints; the return value is the time by this program's clock. */
static uint64_t work(const struct load *l, uint64_t n, long long window, struct tally *t)
{
	uint64_t spent = 0, left = n < parts ? n : parts;
	if (l->stretch && l->stretch * left < n)
		left = (n + l->stretch - 1) / l->stretch;
	for (; left; left--) {
		uint64_t part = n / left;
		if (l->renew)
			l->renew();
		if (window >= 0)
			say("begin %lld", window);
		uint64_t from = now();
		t->wrong += l->operate(part);
		uint64_t took = now() - from;
		if (window >= 0)
			say("end %lld %llu %llu", window, (unsigned long long)part, (unsigned long long)took);
		t->operations += part;
		spent += took;
		n -= part;
	}
	return spent;
}

static uint64_t scaled(uint64_t n, uint64_t want, uint64_t took)
{
	return (uint64_t)((double)n * want / (took + 1)) + 1;
}

/* calibrate finds how many operations take want nanoseconds. Of two tries the
 * shorter counts, because either may have been interrupted. */
static uint64_t calibrate(const struct load *l, uint64_t want)
{
	struct tally ignored = { 0 };
	for (uint64_t n = 1; n < UINT64_C(1) << 40; n *= 2) {
		uint64_t took = work(l, n, -1, &ignored), again = work(l, n, -1, &ignored);
		if (again < took)
			took = again;
		if (took >= want / 4)
			return scaled(n, want, took);
	}
	fprintf(stderr, "micro: the clock stands still; give the number of operations\n");
	exit(1);
}

struct tally measure(const struct load *l, char **argv)
{
	uint64_t windows = number(argv[0], 1), want = number(argv[1], 1) * 1000000, fixed = number(argv[2], 0);
	uint64_t warmup = number(argv[3], 0) * 1000000, n = fixed, from = now(), took;
	struct tally t = { 0 }, ignored = { 0 };
	do {
		if (!fixed)
			n = calibrate(l, want);
		else if (!work(l, n, -1, &ignored))
			break; /* on a clock that stands still this would never end */
	} while (now() - from < warmup);
	for (uint64_t w = 0; w < windows; w++) {
		took = work(l, n, w, &t);
		/* The cost of an operation may change for good: a sandbox
		 * may take seconds until its clock needs no system call. */
		if (!fixed && (took < want / 2 || took > want * 4))
			n = scaled(n, want, took);
	}
	return t;
}

void finish(struct tally t)
{
	say("done %llu %llu", (unsigned long long)t.operations, (unsigned long long)t.wrong);
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

void say_latencies(uint64_t *latency, uint64_t n, uint64_t backwards)
{
	qsort(latency, n, sizeof *latency, ascending);
	for (uint64_t i = 0, j; i < n; i = j) {
		for (j = i; j < n && latency[j] == latency[i]; j++)
			;
		printf("latency %llu %llu\n", (unsigned long long)latency[i], (unsigned long long)(j - i));
	}
	say("backwards %llu", (unsigned long long)backwards);
}

void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		fail("map memory");
	return p;
}

uint64_t arithmetic(uint64_t n, uint64_t step, uint64_t start)
{
	uint64_t pairs = n % 2 ? n * ((n - 1) / 2) : n / 2 * (n - 1);
	return step * pairs + start * n;
}
