//go:build ignore

/* capture prints what can be seen of the machine from where it runs, for package
 * environment to unpack: files named by patterns, CPUID, and what takes a system
 * call to know. It must work where /proc and /sys are cut down or missing
 * (gVisor, Gramine, a bare initramfs) and travel over a serial console, so each
 * entry is one line of printable ASCII and the last line says how many there were:
 *
 *	capture 1
 *	cpuid LEAF SUBLEAF EAX EBX ECX EDX      hexadecimal; those not listed are zero
 *	msr CPU REGISTER VALUE                  hexadecimal
 *	nomsr CPU REGISTER ERRNO TEXT
 *	fact NAME VALUE
 *	file PATH BYTES                         whole contents
 *	part PATH BYTES                         the first MiB of a longer file
 *	link PATH TARGET                        a symbolic link to a folder, or to nothing
 *	dir PATH
 *	node PATH                               a device, pipe or socket
 *	error PATH ERRNO TEXT                   there, or perhaps there, but not readable
 *	end COUNT
 *
 * A path that is not there leaves no line. */
#include "micro.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT = 1 << 20 };

static unsigned long entries;

/* escaped prints bytes as ASCII on one line. In names a space is escaped
 * too, because it ends them. */
static void escaped(const char *s, size_t n, int name)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = s[i];
		if (c == '\\')
			fputs("\\\\", stdout);
		else if (c == '\n')
			fputs("\\n", stdout);
		else if (c == '\t')
			fputs("\\t", stdout);
		else if (c < ' ' || c > '~' || (name && c == ' '))
			printf("\\x%02x", c);
		else
			putchar(c);
	}
}

static void head(const char *kind, const char *name)
{
	printf("%s ", kind);
	escaped(name, strlen(name), 1);
	entries++;
}

static void entry(const char *kind, const char *name, const char *data, size_t n)
{
	head(kind, name);
	putchar(' ');
	escaped(data, n, 0);
	putchar('\n');
}

static void fact(const char *name, const char *value)
{
	entry("fact", name, value, strlen(value));
}

static void failed(const char *path, int err)
{
	head("error", path);
	printf(" %d %s\n", err, strerror(err));
}

/* contents prints a file. It does not ask for the size: files of /proc
 * report 0 and those of /sys a page. */
static void contents(const char *path)
{
	static char buf[LIMIT + 1];
	size_t n = 0;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		failed(path, errno);
		return;
	}
	while (n < sizeof buf) {
		ssize_t got = read(fd, buf + n, sizeof buf - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			failed(path, errno);
			close(fd);
			return;
		}
		if (!got)
			break;
		n += got;
	}
	close(fd);
	if (n > LIMIT)
		entry("part", path, buf, LIMIT);
	else
		entry("file", path, buf, n);
}

static void one(const char *path)
{
	struct stat st;
	char target[PATH_MAX];
	if (lstat(path, &st) < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			failed(path, errno);
		return;
	}
	if (S_ISLNK(st.st_mode) && (stat(path, &st) < 0 || S_ISDIR(st.st_mode))) {
		ssize_t n = readlink(path, target, sizeof target);
		if (n < 0)
			failed(path, errno);
		else
			entry("link", path, target, n);
	} else if (S_ISREG(st.st_mode)) {
		contents(path);
	} else {
		head(S_ISDIR(st.st_mode) ? "dir" : "node", path);
		putchar('\n');
	}
}

static int refused(const char *path, int err)
{
	if (err != ENOENT && err != ENOTDIR)
		failed(path, err);
	return 0;
}

static void matching(const char *pattern)
{
	glob_t g = { 0 };
	if (!glob(pattern, GLOB_NOSORT, refused, &g))
		for (size_t i = 0; i < g.gl_pathc; i++)
			one(g.gl_pathv[i]);
	globfree(&g);
}

/* listed reports whether word is in a list separated by commas. */
static int listed(const char *list, const char *word, size_t n)
{
	for (; *list; list += strcspn(list, ","), list += *list == ',')
		if (strcspn(list, ",") == n && !strncmp(list, word, n))
			return 1;
	return 0;
}

/* upward prints the file called name in a cgroup's folder and in all above it. */
static void upward(const char *mount, const char *root, char *group, const char *name)
{
	size_t n = strlen(root);
	char path[2 * PATH_MAX];
	if (!strcmp(root, "/"))
		n = 0;
	else if (strncmp(group, root, n) || (group[n] && group[n] != '/'))
		group[n = 0] = 0; /* a namespace hides where we are: the mount shows our own cgroup */
	for (char *rel = group + n, *end;; *end = 0) {
		snprintf(path, sizeof path, "%s%s/%s", mount, strcmp(rel, "/") ? rel : "", name);
		one(path);
		end = strrchr(rel, '/');
		if (!end || !rel[1])
			return;
	}
}

/* own prints a file of this process's own cgroups and of those above them,
 * which also limit it. Both kinds of hierarchy may be mounted (proc(5),
 * cgroups(7)). */
static void own(const char *name)
{
	char *line = NULL, root[PATH_MAX], mount[PATH_MAX], type[16], options[PATH_MAX];
	size_t size = 0;
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	while (mounts && getline(&line, &size, mounts) > 0) {
		char *dash = strstr(line, " - "), group[PATH_MAX + 256];
		if (!dash || sscanf(line, "%*s %*s %*s %4095s %4095s", root, mount) != 2 ||
		    sscanf(dash, " - %15s %*s %4095s", type, options) != 2 || strncmp(type, "cgroup", 6))
			continue;
		FILE *groups = fopen("/proc/self/cgroup", "re");
		while (groups && fgets(group, sizeof group, groups)) {
			group[strcspn(group, "\n")] = 0;
			char *controllers = strchr(group, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
			if (!path)
				continue;
			controllers++;
			size_t n = strcspn(controllers, ",:");
			if (type[6] ? !n : n && listed(options, controllers, n))
				upward(mount, root, path + 1, name);
		}
		if (groups)
			fclose(groups);
	}
	if (mounts)
		fclose(mounts);
	free(line);
}

#ifdef __x86_64__
static sigjmp_buf illegal;

static void on_illegal(int sig)
{
	siglongjmp(illegal, sig);
}

static unsigned leaf(unsigned number, unsigned sub, unsigned *c)
{
	unsigned a, b, d;
	__cpuid_count(number, sub, a, b, *c, d);
	if (!(a | b | *c | d))
		return 0;
	printf("cpuid %x %x %x %x %x %x\n", number, sub, a, b, *c, d);
	entries++;
	return a;
}

static void range(unsigned first, unsigned most)
{
	unsigned c, last = leaf(first, 0, &c);
	if (last > first + most)
		last = first + most;
	for (unsigned n = first + 1; n <= last && last > first; n++) {
		unsigned a = leaf(n, 0, &c), sub = 0;
		switch (n) {
		case 4: /* caches: type 0 ends the list */
		case 0x8000001d:
			while (a & 31 && sub < 16)
				a = leaf(n, ++sub, &c);
			break;
		case 7: /* EAX is the last subleaf */
			for (; sub < a && sub < 8;)
				leaf(n, ++sub, &c);
			break;
		case 0xb: /* topology: level type 0 ends the list */
		case 0x1f:
			while (c >> 8 & 255 && sub < 16)
				leaf(n, ++sub, &c);
			break;
		case 0x12: /* enclave page cache: type 0 ends the list */
			leaf(n, ++sub, &c);
			do
				a = leaf(n, ++sub, &c);
			while (a & 15 && sub < 66);
		}
	}
}

/* processor prints CPUID. In an SGX enclave whose runtime does not emulate it,
 * the instruction is illegal. */
static void processor(void)
{
	struct sigaction catch = { .sa_handler = on_illegal }, before;
	unsigned a, b, c, d;
	sigaction(SIGILL, &catch, &before);
	if (sigsetjmp(illegal, 1)) {
		fact("cpuid", "the instruction is illegal here");
	} else {
		range(0, 0x40);
		__cpuid(1, a, b, c, d);
		if (c >> 31) /* a hypervisor: elsewhere these leaves repeat others */
			range(0x40000000, 0x20);
		range(0x80000000, 0x40);
	}
	sigaction(SIGILL, &before, NULL);
	(void)a, (void)b, (void)d;
}
#else
static void processor(void)
{
	fact("cpuid", "not an x86 CPU");
}
#endif

/* msr prints a register of CPU 0: the kernel's msr module and root permitting. */
static void msr(uint32_t reg)
{
	uint64_t v = 0;
	int fd = open("/dev/cpu/0/msr", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, &v, sizeof v, reg) != sizeof v)
		printf("nomsr 0 %x %d %s\n", reg, errno, strerror(errno));
	else
		printf("msr 0 %x %llx\n", reg, (unsigned long long)v);
	entries++;
	if (fd >= 0)
		close(fd);
}

static void affinity(void)
{
	/* Larger than cpu_set_t, which ends at 1024 CPUs. */
	static unsigned char mask[8192];
	char text[4096];
	size_t n = 0;
	long got = sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask);
	if (got < 0)
		return;
	for (unsigned i = 0, end; i < 8 * sizeof mask && n < sizeof text - 32; i = end) {
		for (end = i; end < 8 * sizeof mask && mask[end / 8] >> end % 8 & 1;)
			end++;
		if (end > i)
			n += snprintf(text + n, sizeof text - n, end > i + 1 ? "%s%u-%u" : "%s%u", n ? "," : "", i, end - 1);
		else
			end++;
	}
	entry("fact", "affinity", text, n);
}

/* libc prints the environment's own C library: glibc has its name and
 * version in its text. This program is linked with musl and does not use it. */
static void libc(void)
{
	static const char *const places[] = {
		"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6",
		"/lib/libc.so.6",
	};
	static const char mark[] = "GNU C Library";
	char text[256];
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		struct stat st;
		int fd = open(places[i], O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		char *map = fstat(fd, &st) < 0 || st.st_size < 1 ? MAP_FAILED : mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		char *at = map == MAP_FAILED ? NULL : memmem(map, st.st_size, mark, sizeof mark - 1);
		if (at) {
			size_t left = map + st.st_size - at;
			snprintf(text, sizeof text, "%.*s", (int)(left < 200 ? left : 200), at);
			text[strcspn(text, "\n")] = 0;
			fact("libc", text);
		}
		if (map != MAP_FAILED)
			munmap(map, st.st_size);
		close(fd);
		if (at)
			return;
	}
	glob_t g = { 0 };
	if (!glob("/lib/ld-musl-*.so.1", GLOB_NOSORT, NULL, &g))
		fact("libc", "musl");
	globfree(&g);
}

static void facts(void)
{
	struct utsname u;
	struct timespec r;
	char text[64];
	if (!uname(&u)) {
		fact("sysname", u.sysname);
		fact("release", u.release);
		fact("version", u.version);
		fact("machine", u.machine);
	}
	if (!clock_getres(CLOCK_MONOTONIC, &r)) {
		snprintf(text, sizeof text, "%lld", (long long)r.tv_sec * 1000000000 + r.tv_nsec);
		fact("clock_resolution_nanoseconds", text);
	}
	affinity();
	snprintf(text, sizeof text, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	fact("cpus", text);
	fact("worker", "static, musl libc");
	libc();
}

static void ask(const char *pattern)
{
	static const char mine[] = "@cgroup/";
	if (!strncmp(pattern, mine, sizeof mine - 1))
		own(pattern + sizeof mine - 1);
	else if (*pattern)
		matching(pattern);
}

static int run(int argc, char **argv)
{
	char *line = NULL;
	size_t size = 0;
	puts("capture 1");
	processor();
	msr(0xc0010131); /* SEV_STATUS */
	facts();
	for (int i = 1; i < argc; i++)
		ask(argv[i]);
	while (argc == 1 && getline(&line, &size, stdin) > 0) {
		line[strcspn(line, "\n")] = 0;
		ask(line);
	}
	free(line);
	printf("end %lu\n", entries);
	if (fflush(stdout))
		fail("write");
	return 0;
}

const struct mode capture_mode = { "capture", "[PATTERN]... (or one a line on stdin); @cgroup/FILE is FILE of the own cgroups", run };
