//go:build ignore

/* first-touch touches every 4 KiB of an area: when it is new, when another one has just
 * been given back, whose pages the kernel has at hand, and once more. What the first of
 * these costs beyond the second is paid once for memory: a confidential guest accepts it,
 * a host backs it.
 *
 * A page of 2 MiB is a transparent huge page, one of 1 GiB comes from the kernel's
 * reserve. Each is one fault, which the kernel counts, so the count shows whether the
 * memory was new and the pages as large as they should be. */
#include "measure.h"

#include <sys/mman.h>
#include <sys/resource.h>

enum { step = 4096 };
static const uint64_t mib2 = UINT64_C(2) << 20, gib = UINT64_C(1) << 30;

static unsigned char *area, *mapped;
static uint64_t bytes, page, wrong;

/* meminfo is a value of /proc/meminfo in KiB, or -1. */
static long long meminfo(const char *name)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[256];
	long long v = -1;
	size_t n = strlen(name);
	while (f && v < 0 && fgets(line, sizeof line, f))
		if (!strncmp(line, name, n) && line[n] == ':')
			v = strtoll(line + n + 1, NULL, 10);
	if (f)
		fclose(f);
	return v;
}

/* say_unaccepted says how much memory the guest has yet to accept. */
static void say_unaccepted(void)
{
	long long v = meminfo("Unaccepted");
	if (v < 0)
		say("unaccepted none");
	else
		say("unaccepted %lld", v);
}

static void give_back(void)
{
	if (munmap(mapped, page == mib2 ? bytes + page : bytes))
		fail("unmap memory");
}

static void map_area(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	size_t more = page == mib2 ? page : 0; /* to align it */
	if (page == gib)
		flags |= MAP_HUGETLB | 30 << MAP_HUGE_SHIFT;
	mapped = mmap(NULL, bytes + more, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (mapped == MAP_FAILED)
		fail(page == gib ? "map pages of 1 GiB (reserve them: hugepagesz=1G hugepages=NUMBER on the kernel's command line)" : "map memory");
	area = more ? (unsigned char *)(((uintptr_t)mapped + page - 1) & ~(page - 1)) : mapped;
	if (page != gib) /* a kernel without huge pages refuses both, and the count of faults tells */
		madvise(area, bytes, page == mib2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

static uint64_t faults(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

/* A write and nothing else: a read first would map the shared zero page, and an emulator with one
 * CPU does a read-modify-write in two steps. */
static void touch(unsigned char with)
{
	for (volatile unsigned char *p = area; p < area + bytes; p += step)
		*p = with;
}

/* look checks what was written, and that the rest was new. */
static void look(void)
{
	for (volatile unsigned char *p = area; p < area + bytes; p += step)
		wrong += p[0] != 1 || p[1] != 0;
}

/* pass touches a new area. */
static void pass(int window)
{
	say("begin %d", window);
	uint64_t before = faults(), from = now();
	touch(1);
	uint64_t took = now() - from, taken = faults() - before;
	say("end %d %llu %llu", window, (unsigned long long)(bytes / page), (unsigned long long)took);
	say("faults %llu", (unsigned long long)taken);
	look();
}

static int run(int argc, char **argv)
{
	if (argc != 3)
		return usage(&first_touch_mode);
	page = !strcmp(argv[1], "4KiB") ? step : !strcmp(argv[1], "2MiB") ? mib2 : !strcmp(argv[1], "1GiB") ? gib : 0;
	if (!page)
		return usage(&first_touch_mode);
	bytes = number(argv[2], page);
	if (bytes % page) {
		fprintf(stderr, "micro: %s bytes are no whole number of pages of %s\n", argv[2], argv[1]);
		return 2;
	}
	long long here = meminfo("MemAvailable");
	if (page != gib && here >= 0 && bytes >> 10 > (uint64_t)here) {
		fprintf(stderr, "micro: %llu KiB are more than the %lld KiB of memory that are available\n", (unsigned long long)(bytes >> 10), here);
		return 1;
	}

	say_unaccepted();
	map_area();
	now(), faults(); /* so the faults of this program's own pages are not among them */
	pass(0);
	say_unaccepted();
	give_back();
	map_area();
	pass(1);
	say_unaccepted();
	uint64_t from = now();
	touch(2);
	uint64_t took = now() - from;
	say("again %llu %llu", (unsigned long long)(bytes / page), (unsigned long long)took);
	finish((struct tally){ 2 * (bytes / page), wrong });
	return 0;
}

const struct mode first_touch_mode = { "first-touch", "4KiB|2MiB|1GiB BYTES", run };
