//go:build ignore

/* fault takes page faults of one kind over and over, each in a page of the
 * smallest size:
 *
 *	read     reading a page that is not there, which maps the page of zeros
 *	copy     writing to a page that a child process shares since a fork
 *	file     reading a page of a file that is in memory
 *	execute  running one
 *
 * Making the pages ready lies between stretches. The write to a page that is not
 * there is `syscall fault`. */
#include "measure.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of linux/memfd.h since 6.3; before, both were as without. */
#ifndef MFD_EXEC
enum { MFD_NOEXEC_SEAL = 8, MFD_EXEC = 16 };
#endif

enum {
	fresh_bytes = 64 << 20,
	copied_bytes = 2 << 20, /* each renewal makes every page */
	file_bytes = 8 << 20,
	/* A fault in a file maps surrounding pages that are in memory, 64
	 * KiB of them by default (fault_around_bytes of mm/memory.c). */
	around = 64 << 10,
};

static unsigned char *area;
static size_t step;

static void fresh(size_t bytes)
{
	if (area && munmap(area, bytes))
		fail("unmap memory");
	area = map(bytes);
	madvise(area, bytes, MADV_NOHUGEPAGE); /* fails on a kernel without huge pages */
}

static void unread(void) { fresh(fresh_bytes); }

static uint64_t read_pages(uint64_t n)
{
	uint64_t wrong = 0;
	for (volatile unsigned char *p = area; n--; p += step)
		wrong += *p != 0;
	return wrong;
}

static pid_t keeper; /* a child that only shares our memory */

static void dismiss(void)
{
	if (keeper > 0) {
		kill(keeper, SIGKILL);
		waitpid(keeper, NULL, 0);
	}
}

static void share(void)
{
	int status;
	dismiss();
	fresh(copied_bytes);
	for (size_t i = 0; i < copied_bytes; i += step)
		area[i] = 1;
	keeper = fork();
	if (keeper == 0) {
		raise(SIGSTOP);
		_exit(0);
	}
	/* It must not start while we measure. */
	if (keeper < 0 || waitpid(keeper, &status, WUNTRACED) < 0)
		fail("fork");
}

static uint64_t write_pages(uint64_t n)
{
	uint64_t wrong = 0;
	for (unsigned char *p = area; n--; p += step)
		wrong += __atomic_fetch_add(p, 1, __ATOMIC_RELAXED) != 1;
	return wrong;
}

static int file, allowed;
enum { ret = 0xc3 }; /* the instruction that returns */

static void make_file(int flags)
{
	file = memfd_create("micro", flags);
	if (file < 0 && errno == EINVAL)
		file = memfd_create("micro", 0);
	if (file < 0 || ftruncate(file, file_bytes))
		fail("make a file in memory");
	unsigned char *p = mmap(NULL, file_bytes, PROT_WRITE, MAP_SHARED, file, 0);
	if (p == MAP_FAILED)
		fail("map a file");
	memset(p, ret, file_bytes);
	munmap(p, file_bytes);
}

static void unmapped(void)
{
	if (area && munmap(area, file_bytes))
		fail("unmap a file");
	area = mmap(NULL, file_bytes, allowed, MAP_SHARED, file, 0);
	if (area == MAP_FAILED)
		fail("map a file");
}

static uint64_t read_file(uint64_t n)
{
	uint64_t wrong = 0;
	for (volatile unsigned char *p = area; n--; p += step)
		wrong += *p != ret;
	return wrong;
}

static uint64_t execute_file(uint64_t n)
{
	for (unsigned char *p = area; n--; p += step)
		((void (*)(void))p)();
	return 0;
}

static int run(int argc, char **argv)
{
	struct load l = { 0 };
	if (argc != 2 + window_args)
		return usage(&fault_mode);
	step = sysconf(_SC_PAGESIZE);
	if (!strcmp(argv[1], "read")) {
		l = (struct load){ read_pages, unread, fresh_bytes / step };
	} else if (!strcmp(argv[1], "copy")) {
		l = (struct load){ write_pages, share, copied_bytes / step };
	} else if (!strcmp(argv[1], "file")) {
		step = around, allowed = PROT_READ;
		make_file(MFD_NOEXEC_SEAL);
		l = (struct load){ read_file, unmapped, file_bytes / step };
	} else if (!strcmp(argv[1], "execute")) {
		step = around, allowed = PROT_READ | PROT_EXEC;
		make_file(MFD_EXEC);
		l = (struct load){ execute_file, unmapped, file_bytes / step };
	} else {
		return usage(&fault_mode);
	}
	struct tally t = measure(&l, argv + 2);
	dismiss();
	finish(t);
	return 0;
}

const struct mode fault_mode = { "fault", "read|copy|file|execute " WINDOW_ARGS, run };
