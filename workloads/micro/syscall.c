//go:build ignore

/* syscall does one thing over and over that leaves the program, or just does
 * not: a null system call, the clock with and without a system call, the first
 * touch of a page. */
#include "measure.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The cheapest call that neither libc nor the kernel answers from memory:
 * its answer must be the same each time. */
static uint64_t null_call(uint64_t n)
{
	long parent = getppid();
	uint64_t wrong = 0;
	while (n--)
		wrong += syscall(SYS_getppid) != parent;
	return wrong;
}

static int64_t nanoseconds(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* Through the C library, which asks the vDSO if there is one. An answer
 * earlier than the last one is wrong. */
static uint64_t clock_vdso(uint64_t n)
{
	struct timespec t;
	uint64_t wrong = 0;
	for (int64_t last = 0; n--; last = nanoseconds(&t))
		wrong += clock_gettime(CLOCK_MONOTONIC, &t) || nanoseconds(&t) < last;
	return wrong;
}

static uint64_t clock_call(uint64_t n)
{
	struct timespec t;
	uint64_t wrong = 0;
	for (int64_t last = 0; n--; last = nanoseconds(&t))
		wrong += syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t) || nanoseconds(&t) < last;
	return wrong;
}

/* Pages are touched once each; taking the area back and mapping a new one lies
 * between stretches. 64 MiB fit into a common enclave, and make a stretch of
 * milliseconds. */
enum { area_bytes = 64 << 20 };
static unsigned char *area;
static size_t page;

static void fresh_area(void)
{
	if (area && munmap(area, area_bytes))
		fail("unmap memory");
	area = map(area_bytes);
	/* One page at a time, whatever the policy; a kernel without huge pages says no. */
	madvise(area, area_bytes, MADV_NOHUGEPAGE);
}

/* Read and write in one instruction: a plain read would map the shared zero page
 * first and fault again on the write. A fresh page reads zero. */
static uint64_t touch(uint64_t n)
{
	uint64_t wrong = 0;
	for (unsigned char *p = area; n--; p += page)
		wrong += __atomic_fetch_add(p, 1, __ATOMIC_RELAXED) != 0;
	return wrong;
}

static int run(int argc, char **argv)
{
	struct load l = { 0 };
	if (argc != 2 + window_args)
		return usage(&syscall_mode);
	if (!strcmp(argv[1], "null")) {
		l.operate = null_call;
	} else if (!strcmp(argv[1], "vdso")) {
		l.operate = clock_vdso;
	} else if (!strcmp(argv[1], "clock")) {
		l.operate = clock_call;
	} else if (!strcmp(argv[1], "fault")) {
		page = sysconf(_SC_PAGESIZE);
		l = (struct load){ touch, fresh_area, area_bytes / page };
	} else {
		return usage(&syscall_mode);
	}
	finish(measure(&l, argv + 2));
	return 0;
}

const struct mode syscall_mode = { "syscall", "null|vdso|clock|fault " WINDOW_ARGS, run };
