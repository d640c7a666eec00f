//go:build ignore

/* memory reads, writes and copies an area, or follows pointers through it.
 *
 * So that the compiler leaves nothing out, each pass ends in an asm statement
 * that may read and change all memory, and what passes compute is compared with
 * the sum it must be. The same statement after each block keeps the loops from
 * being turned into calls of memset and memcpy, which would measure the C
 * library. */
#include "measure.h"

typedef uint64_t pair __attribute__((vector_size(16)));
enum { lanes = 4 };		/* pairs in a block of 64 bytes, written out because the compiler does not unroll */
#define BARRIER() __asm__ volatile("" ::: "memory")

/* Word i holds start + i * step. The numbers are odd and have no other meaning. */
static const uint64_t step = UINT64_C(0x9e3779b97f4a7c15), start = UINT64_C(0x2545f4914f6cdd1d);

static pair *from, *to;
static size_t blocks;		/* of 64 bytes in each area */

static uint64_t sum(const pair *p)
{
	pair a = { 0 }, b = a, c = a, d = a;
	for (const pair *end = p + blocks * lanes; p < end; p += lanes) {
		a += p[0], b += p[1], c += p[2], d += p[3];
		BARRIER();
	}
	a += b + c + d;
	return a[0] + a[1];
}

static void fill(pair *p)
{
	pair a = { start, start + step }, b = a + 2 * step, c = b + 2 * step, d = c + 2 * step;
	for (pair *end = p + blocks * lanes; p < end; p += lanes) {
		p[0] = a, p[1] = b, p[2] = c, p[3] = d;
		a += 8 * step, b += 8 * step, c += 8 * step, d += 8 * step;
		BARRIER();
	}
}

static uint64_t expected(void)
{
	return arithmetic(blocks * lanes * 2, step, start);
}

static uint64_t read_pass(uint64_t n)
{
	uint64_t wrong = 0;
	while (n--)
		wrong += sum(from) != expected();
	return wrong;
}

static uint64_t write_pass(uint64_t n)
{
	while (n--)
		fill(to);
	return 0;
}

static uint64_t copy_pass(uint64_t n)
{
	while (n--) {
		pair *q = to;
		for (const pair *p = from, *end = p + blocks * lanes; p < end; p += lanes, q += lanes) {
			q[0] = p[0], q[1] = p[1], q[2] = p[2], q[3] = p[3];
			BARRIER();
		}
	}
	return 0;
}

/* A node is a cache line that holds the number of the next one. */
struct node {
	uint64_t next, unused[7];
};
static struct node *nodes;
static uint64_t at, steps;

/* Sattolo's algorithm: a random permutation that is one cycle through all
 * nodes (Information Processing Letters 22, 1986). The generator is
 * xorshift64 (Marsaglia, Journal of Statistical Software 8(14), 2003) with a
 * fixed seed, so every run has the same order. */
static void cycle(void)
{
	uint64_t x = start;
	for (uint64_t i = 0; i < blocks; i++)
		nodes[i].next = i;
	for (uint64_t i = blocks - 1; i > 0; i--) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		uint64_t j = x % i, t = nodes[i].next;
		nodes[i].next = nodes[j].next;
		nodes[j].next = t;
	}
}

static uint64_t chase(uint64_t n)
{
	uint64_t i = at;
	steps += n;
	while (n--)
		i = ((volatile struct node *)nodes)[i].next;
	at = i;
	return 0;
}

/* visited walks the whole cycle once and sums the nodes; *wrong grows if it does
 * not close, or if chase is not where its steps lead. */
static uint64_t visited(uint64_t *wrong)
{
	uint64_t i = 0, s = 0, there = 0;
	for (uint64_t k = 0; k < blocks; k++) {
		if (k == steps % blocks)
			there = i;
		s += i;
		i = nodes[i].next;
	}
	*wrong += (i != 0) + (there != at);
	return s;
}

static int run(int argc, char **argv)
{
	if (argc != 3 + window_args)
		return usage(&memory_mode);
	const char *what = argv[1];
	uint64_t bytes = number(argv[2], 128);
	struct load l = { 0 };
	struct tally t;
	blocks = bytes / 64;
	if (!strcmp(what, "read")) {
		from = map(bytes), fill(from);
		l.operate = read_pass;
	} else if (!strcmp(what, "write")) {
		to = map(bytes);
		l.operate = write_pass;
	} else if (!strcmp(what, "copy")) {
		blocks /= 2;
		from = map(bytes), to = from + blocks * lanes, fill(from);
		l.operate = copy_pass;
	} else if (!strcmp(what, "latency")) {
		nodes = map(bytes), cycle();
		l.operate = chase;
	} else {
		return usage(&memory_mode);
	}
	t = measure(&l, argv + 3);
	uint64_t s = nodes ? visited(&t.wrong) : sum(to ? to : from);
	say("sum %llu", (unsigned long long)s);
	finish(t);
	return 0;
}

const struct mode memory_mode = { "memory", "read|write|copy|latency BYTES " WINDOW_ARGS, run };
