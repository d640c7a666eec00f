/*
 * inside does what a guest's shell cannot.
 *
 *   inside as UID CAPABILITY,... [--refuse NUMBER] PROGRAM [ARGUMENT]...
 *       runs PROGRAM as that user with these capabilities and no others ("none",
 *       "bpf", "perfmon", "syslog", "sys_ptrace", "dac_read_search", "sys_admin",
 *       "sys_resource"); --refuse makes that command of bpf(2) fail with EPERM,
 *       as a seccomp filter of a container may
 *   inside links       lists the programs attached in the kernel, with the kind of link,
 *       or "-" for a program without a link
 *   inside forks N     starts N children, one after the other; each makes one getppid
 *   inside disks ROUNDS READS BYTES DISK...
 *       reads from the start of each disk, past the page cache, READS times BYTES; in
 *       each round from all disks in turn, beginning with another one. It prints lines
 *       "DISK NANOSECONDS"
 *   inside pages SECONDS PAGES
 *       for so long, as process "known-enclave" of a high priority: maps PAGES of
 *       /dev/sgx_enclave, touches each, computes about as long, and sleeps as long as both. It prints
 *       "PAGES NANOSECONDS-TOUCHING NANOSECONDS-IN-ALL", pages and CPU time
 *
 *   cc -static -O2 -o inside inside.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "inside: %s: %s\n", what, strerror(errno));
	exit(1);
}

static const struct {
	const char *name;
	int number;
} capabilities[] = {
	{ "dac_read_search", CAP_DAC_READ_SEARCH }, { "sys_ptrace", CAP_SYS_PTRACE }, { "sys_admin", CAP_SYS_ADMIN },
	{ "sys_resource", CAP_SYS_RESOURCE },	    { "syslog", CAP_SYSLOG },	      { "perfmon", CAP_PERFMON },
	{ "bpf", CAP_BPF },
};

static uint64_t set_of(char *list)
{
	uint64_t set = 0;

	for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
		size_t i = 0, n = sizeof capabilities / sizeof *capabilities;

		if (!strcmp(name, "none"))
			continue;
		while (i < n && strcmp(capabilities[i].name, name))
			i++;
		if (i == n) {
			fprintf(stderr, "inside: unknown capability %s\n", name);
			exit(4);
		}
		set |= 1ULL << capabilities[i].number;
	}
	return set;
}

/* The bounding set is emptied too, so that no file can give back what was dropped. */
static void become(int uid, uint64_t set)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = {
		{ (uint32_t)set, (uint32_t)set, (uint32_t)set },
		{ (uint32_t)(set >> 32), (uint32_t)(set >> 32), (uint32_t)(set >> 32) },
	};

	for (int c = 0; c < 64; c++)
		if (!(set >> c & 1) && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) && errno != EINVAL)
			die("drop from the bounding set");
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		die("change user");
	if (syscall(SYS_capset, &header, data))
		die("set capabilities");
	for (int c = 0; c < 64; c++)
		if (set >> c & 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0))
			die("raise capability");
}

static void refuse(int command)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, command, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof filter / sizeof *filter, filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		die("install filter");
}

static int as(char **argv)
{
	char **program = argv + 2;

	if (!argv[0] || !argv[1] || !argv[2])
		return 4;
	if (!strcmp(*program, "--refuse")) {
		if (!program[1] || !program[2])
			return 4;
		refuse(atoi(program[1]));
		program += 2;
	}
	become(atoi(argv[0]), set_of(argv[1]));
	execv(*program, program);
	die(*program);
	return 1;
}

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof *attr);
}

/* info_of describes the program or link of an id; it is false when that is gone again. */
static int info_of(int command, uint32_t id, void *info, uint32_t size)
{
	union bpf_attr attr = { .prog_id = id };
	int fd = bpf(command, &attr);
	long failed;

	if (fd < 0)
		return 0;
	memset(&attr, 0, sizeof attr);
	memset(info, 0, size);
	attr.info.bpf_fd = fd;
	attr.info.info_len = size;
	attr.info.info = (uintptr_t)info;
	failed = bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
	close(fd);
	return !failed;
}

/* kind_of names the attach type as documentation does. */
static const char *kind_of(const struct bpf_prog_info *program, const struct bpf_link_info *link)
{
	switch (program->type) {
	case BPF_PROG_TYPE_KPROBE: return "kprobe"; /* uprobes too */
	case BPF_PROG_TYPE_TRACEPOINT: return "tracepoint";
	case BPF_PROG_TYPE_RAW_TRACEPOINT: return "raw_tp";
	case BPF_PROG_TYPE_PERF_EVENT: return "perf_event";
	case BPF_PROG_TYPE_TRACING: break;
	default: return "other";
	}
	if (link->type == BPF_LINK_TYPE_RAW_TRACEPOINT)
		return "tp_btf";
	switch (link->tracing.attach_type) {
	case BPF_TRACE_RAW_TP: return "tp_btf";
	case BPF_TRACE_FENTRY: return "fentry";
	case BPF_TRACE_FEXIT: return "fexit";
	case BPF_TRACE_ITER: return "iter";
	}
	return "tracing";
}

static int links(void)
{
	union bpf_attr attr;
	struct bpf_prog_info program;
	struct bpf_link_info link;
	static uint8_t linked[1 << 16];

	for (uint32_t id = 0;;) {
		memset(&attr, 0, sizeof attr);
		attr.start_id = id;
		if (bpf(BPF_LINK_GET_NEXT_ID, &attr))
			break;
		id = attr.next_id;
		if (!info_of(BPF_LINK_GET_FD_BY_ID, id, &link, sizeof link) || !info_of(BPF_PROG_GET_FD_BY_ID, link.prog_id, &program, sizeof program))
			continue;
		if (program.id < sizeof linked)
			linked[program.id] = 1;
		printf("%s %s\n", program.name, kind_of(&program, &link));
	}
	if (errno != ENOENT)
		die("list links");
	for (uint32_t id = 0;;) {
		memset(&attr, 0, sizeof attr);
		attr.start_id = id;
		if (bpf(BPF_PROG_GET_NEXT_ID, &attr))
			break;
		id = attr.next_id;
		if (info_of(BPF_PROG_GET_FD_BY_ID, id, &program, sizeof program) && !(id < sizeof linked && linked[id]))
			printf("%s -\n", program.name);
	}
	return 0;
}

static int forks(long n)
{
	for (long i = 0; i < n; i++) {
		pid_t child = fork();

		if (child < 0)
			die("fork");
		if (!child) {
			prctl(PR_SET_NAME, "shortlived");
			syscall(SYS_getppid);
			_exit(0);
		}
		if (waitpid(child, NULL, 0) != child)
			die("wait");
	}
	return 0;
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int disks(int rounds, int reads, int bytes, int n, char **names)
{
	int fds[8];
	char *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_POPULATE, -1, 0);

	if (n < 1 || n > 8 || buffer == MAP_FAILED)
		die("disks");
	for (int i = 0; i < n; i++)
		if ((fds[i] = open(names[i], O_RDONLY | O_DIRECT)) < 0)
			die(names[i]);
	for (int round = 0; round < rounds; round++)
		for (int turn = 0; turn < n; turn++) {
			int i = (round + turn) % n;
			int64_t began = now();

			for (int k = 0; k < reads; k++)
				if (pread(fds[i], buffer, bytes, (off_t)k * bytes) != bytes)
					die(names[i]);
			printf("%s %lld\n", names[i], (long long)(now() - began));
		}
	return 0;
}

static int64_t used(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void compute(long n)
{
	for (volatile long i = 0; i < n; i++)
		;
}

static int pages(int seconds, int n)
{
	const int size = 4096;
	int fd = open("/dev/sgx_enclave", O_RDWR);
	int64_t until = now() + seconds * 1000000000LL, next = 0, began, touching = 0, touched = 0;
	long work = 1000;

	if (fd < 0)
		die("/dev/sgx_enclave");
	if (setpriority(PRIO_PROCESS, 0, -10))
		die("raise the priority");
	prctl(PR_SET_NAME, "known-enclave");
	began = used();
	while (now() < until) {
		int64_t at = used(), took, computing;
		struct timespec pause = { 0, 0 };
		char *memory = mmap(NULL, (size_t)n * size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (memory == MAP_FAILED)
			die("map /dev/sgx_enclave");
		for (int i = 0; i < n; i++)
			*(volatile char *)(memory + (size_t)i * size);
		took = used() - at;
		touching += took;
		touched += n;
		munmap(memory, (size_t)n * size);
		at = used();
		compute(work);
		computing = used() - at;
		if (computing < took && work < 1L << 40)
			work += work / 8 + 1;
		else
			work -= work / 8;
		pause.tv_nsec = (took + computing) % 1000000000;
		nanosleep(&pause, NULL);
		if (now() < next && now() < until)
			continue;
		next = now() + 1000000000LL;
		clock_gettime(CLOCK_REALTIME, &pause);
		printf("%lld.%03ld %lld %lld %lld\n", (long long)pause.tv_sec, pause.tv_nsec / 1000000, (long long)touched, (long long)touching,
		       (long long)(used() - began));
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "as"))
		return as(argv + 2);
	if (argc == 2 && !strcmp(argv[1], "links"))
		return links();
	if (argc > 5 && !strcmp(argv[1], "disks"))
		return disks(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), argc - 5, argv + 5);
	if (argc == 4 && !strcmp(argv[1], "pages"))
		return pages(atoi(argv[2]), atoi(argv[3]));
	if (argc == 3 && !strcmp(argv[1], "forks"))
		return forks(atol(argv[2]));
	fprintf(stderr, "inside: see the comment on top of inside.c\n");
	return 4;
}
