//go:build ignore

/* sampled does one thing over and over while the kernel's CPU clock samples this
 * thread every PERIOD nanoseconds, and says where the samples found it:
 *
 *	samples USER KERNEL OTHER
 *	loop OPERATIONS NANOSECONDS
 *
 * The thing is a null system call, or a write to a page that is not there. A
 * processor enters and leaves the kernel with interrupts off. A tick that comes on
 * the way in is taken once the kernel lets it, in the kernel; one that comes on
 * the way out is taken by the program's next instruction, so that every sampling
 * profiler counts that part of a call or fault as the program's own time. What
 * the program's loop takes by itself is timed without the kernel. */
#include "measure.h"

#include <sys/mman.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of linux/perf_event.h, which comes with the kernel and not with every C
 * library: the first version of the structure, and what it is filled with. */
struct attr {
	uint32_t type, size;
	uint64_t config, period, sample_type, read_format, flags;
	uint32_t wakeup, breakpoint;
	uint64_t config1;
};
enum {
	SOFTWARE = 1, CPU_CLOCK = 0,
	SAMPLE_IP = 1,
	DISABLED = 1 << 0, EXCLUDE_HV = 1 << 6,
	ENABLE = 0x2400, DISABLE = 0x2401, /* ioctls */
	SAMPLE = 9, LOST = 2,		   /* records */
	CPUMODE = 7, KERNEL = 1, USER = 2,
	HEAD = 1024, /* of data_head in the first page */
};
struct record {
	uint32_t type;
	uint16_t misc, size;
};

enum { ring_bytes = 256 << 10 }; /* below what any user may lock, perf_event_mlock_kb */

#define REPEATED(n, instruction, r) \
	while (n--) \
		__asm__ volatile(instruction : "=a"(r) : "0"((long)SYS_getppid) : "rcx", "r11", "memory")

static uint64_t null_calls(uint64_t n)
{
	long r = 0;
	REPEATED(n, "syscall", r);
	return r < 0;
}

static uint64_t no_calls(uint64_t n)
{
	long r = 0;
	REPEATED(n, "", r);
	return r != SYS_getppid;
}

static unsigned char *area;
static size_t page;

enum { area_bytes = 8 << 20 };

static void fresh(void)
{
	if (area && munmap(area, area_bytes))
		fail("unmap memory");
	area = map(area_bytes);
	madvise(area, area_bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages says no */
}

static uint64_t write_pages(uint64_t n)
{
	uint64_t wrong = 0;
	for (unsigned char *p = area; n--; p += page)
		wrong += __atomic_fetch_add(p, 1, __ATOMIC_RELAXED) != 0;
	return wrong;
}

/* The loop of write_pages, in pages that now exist. */
static uint64_t write_again(uint64_t n)
{
	uint64_t wrong = 0;
	for (unsigned char *p = area; n--; p += page)
		wrong += __atomic_fetch_add(p, 1, __ATOMIC_RELAXED) == 0;
	return wrong;
}

/* until repeats f for a while, with renewals outside the time and the
 * samples; it returns how often, and the time in *spent. */
static uint64_t until(const struct load *l, int sampling, uint64_t want, uint64_t *wrong, uint64_t *spent)
{
	uint64_t n = 0;
	for (*spent = 0; *spent < want; n += l->stretch) {
		if (l->renew)
			l->renew();
		if (sampling >= 0)
			ioctl(sampling, ENABLE, 0);
		uint64_t from = now();
		*wrong += l->operate(l->stretch);
		*spent += now() - from;
		if (sampling >= 0)
			ioctl(sampling, DISABLE, 0);
	}
	return n;
}

static int run(int argc, char **argv)
{
	struct load full = { null_calls, NULL, 1000 }, empty = { no_calls, NULL, 1000 };
	page = sysconf(_SC_PAGESIZE);
	if (argc == 4 && !strcmp(argv[1], "write")) {
		full = (struct load){ write_pages, fresh, area_bytes / page };
		empty = (struct load){ write_again, NULL, area_bytes / page };
	} else if (argc != 4 || strcmp(argv[1], "null")) {
		return usage(&sampled_mode);
	}
	uint64_t want = number(argv[2], 1) * 1000000, spent;
	struct attr a = { .type = SOFTWARE, .config = CPU_CLOCK, .size = sizeof a, .period = number(argv[3], 10000),
			  .sample_type = SAMPLE_IP, .flags = DISABLED | EXCLUDE_HV };
	int fd = syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
	if (fd < 0)
		fail("sample this thread, its kernel part included (perf_event_paranoid above 1 takes CAP_PERFMON)");
	char *ring = mmap(NULL, page + ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		fail("map the samples");
	struct tally t = { 0 };
	t.operations = until(&full, fd, want, &t.wrong, &spent);

	uint64_t head = __atomic_load_n((uint64_t *)(ring + HEAD), __ATOMIC_ACQUIRE), user = 0, kernel = 0, other = 0;
	for (uint64_t at = 0; at < head && head <= ring_bytes;) {
		const struct record *r = (const struct record *)(ring + page + at);
		if (r->type == LOST || r->size < sizeof *r)
			t.wrong++;
		if (r->type == SAMPLE)
			*((r->misc & CPUMODE) == USER ? &user : (r->misc & CPUMODE) == KERNEL ? &kernel : &other) += 1;
		at += r->size < sizeof *r ? head : r->size;
	}
	if (head > ring_bytes)
		t.wrong++;
	say("samples %llu %llu %llu", (unsigned long long)user, (unsigned long long)kernel, (unsigned long long)other);
	uint64_t n = until(&empty, -1, want / 20, &t.wrong, &spent);
	say("loop %llu %llu", (unsigned long long)n, (unsigned long long)spent);
	finish(t);
	return 0;
}

const struct mode sampled_mode = { "sampled", "null|write MILLISECONDS PERIOD", run };
