//go:build ignore

/* exits does one thing over and over that a hypervisor must handle, as far as a program may do it:
 *
 *	cpuid      CPUID of a leaf (Intel SDM volume 3C, "Instructions That Cause VM Exits Unconditionally")
 *	port       a byte to I/O port 0x80, which no device takes
 *	hypercall  the hypervisor's call instruction, which KVM refuses to programs, after the exit
 *	msr        a read of IA32_APIC_BASE through the kernel's module msr: a system call and the exit
 *	ipi        membarrier(2) to a thread that runs on another core: a system call, the interrupt and its answer;
 *	           while another program has that core, the kernel sends none, and the time is too low
 *	mmio       a read of the HPET's first register, which the kernel maps for programs (drivers/char/hpet.c)
 *
 * On bare metal the first does not exit and the third is no instruction. The halt of an idle CPU is a part
 * of `wakeup` across cores. */
#include "measure.h"
#include "place.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { post = 0x80, apic_base = 0x1b, expedited = 8, register_expedited = 16 }; /* the last two of linux/membarrier.h */

static uint32_t leaf;
static int amd, msr;

/* Each operation returns what must be the same every time. */
static uint64_t ask(void)
{
	unsigned a, b, c, d;
	__cpuid_count(leaf, 0, a, b, c, d);
	return ((uint64_t)a << 32 | b) ^ ((uint64_t)c << 16) ^ d;
}

static uint64_t write_port(void)
{
	outb(0, post);
	return 0;
}

static uint64_t call(void)
{
	uint64_t answer = 1; /* KVM_HC_VAPIC_POLL_IRQ, which does nothing */
	if (amd)
		__asm__ volatile("vmmcall" : "+a"(answer)::"memory");
	else
		__asm__ volatile("vmcall" : "+a"(answer)::"memory");
	return answer;
}

static uint64_t read_msr(void)
{
	uint64_t v;
	if (pread(msr, &v, sizeof v, apic_base) != sizeof v)
		fail("read the register IA32_APIC_BASE");
	return v;
}

static const volatile uint64_t *hpet;

/* The register tells what the timer can do, and is always the same (IA-PC HPET specification 1.0a, 2.3.4). */
static uint64_t read_memory(void) { return *hpet; }

static uint64_t interrupt(void) { return syscall(SYS_membarrier, expedited, 0, 0); }

static uint64_t (*operation)(void), expected;

static uint64_t repeat(uint64_t n)
{
	uint64_t wrong = 0;
	while (n--)
		wrong += operation() != expected;
	return wrong;
}

static const char *refusal;

static void refuse(int s)
{
	(void)s;
	ssize_t w = write(2, refusal, strlen(refusal));
	_exit(w < 0 ? 2 : 1);
}

/* refused_with says what a signal instead of the operation means. */
static void refused_with(const char *why)
{
	refusal = why;
	signal(SIGILL, refuse);
	signal(SIGSEGV, refuse);
	signal(SIGBUS, refuse);
}

static int other; /* the CPU of the interrupted thread */
static _Atomic int spinning;

static void *spin(void *unused)
{
	pin(other);
	spinning = 1;
	for (;;)
		__asm__ volatile("pause");
	return unused;
}

static void open_msr(int cpu)
{
	char name[64];
	snprintf(name, sizeof name, "/dev/cpu/%d/msr", cpu);
	msr = open(name, O_RDONLY | O_CLOEXEC);
	if (msr < 0)
		fail(name);
}

static void open_memory(void)
{
	int file = open("/dev/hpet", O_RDONLY | O_CLOEXEC);
	if (file < 0)
		fail("/dev/hpet (it needs root, and a machine with that timer)");
	void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
	if (page == MAP_FAILED)
		fail("map /dev/hpet (it needs a kernel that allows it: hpet_mmap=1)");
	hpet = page;
	refused_with("micro: the kernel does no memory-mapped I/O for programs here\n");
}

static void open_interrupt(void)
{
	int cpu[2];
	place("cross", cpu);
	pin(cpu[0]);
	other = cpu[1];
	pthread_t t;
	errno = pthread_create(&t, NULL, spin, NULL);
	if (errno)
		fail("start a thread");
	if (syscall(SYS_membarrier, register_expedited, 0, 0))
		fail("membarrier");
	while (!spinning)
		sched_yield();
}

static int run(int argc, char **argv)
{
	if (argc != 4 + window_args)
		return usage(&exits_mode);
	unsigned a, b, c, d;
	__cpuid(0, a, b, c, d);
	amd = c != 0x6c65746e; /* "ntel" */
	leaf = number(argv[2], 0);
	uint64_t samples = number(argv[3], 1);
	int cpu = sched_getcpu();
	if (strcmp(argv[1], "ipi")) /* which chooses two */
		pin(cpu);
	if (!strcmp(argv[1], "cpuid")) {
		operation = ask;
	} else if (!strcmp(argv[1], "port")) {
		operation = write_port;
		if (ioperm(post, 1, 1))
			fail("ask for I/O port 0x80 (it needs root, and a kernel that is not locked down)");
	} else if (!strcmp(argv[1], "hypercall")) {
		operation = call;
		refused_with("micro: no hypervisor takes a hypercall of a program here\n");
	} else if (!strcmp(argv[1], "msr")) {
		operation = read_msr;
		open_msr(cpu);
	} else if (!strcmp(argv[1], "mmio")) {
		operation = read_memory;
		open_memory();
	} else if (!strcmp(argv[1], "ipi")) {
		operation = interrupt;
		open_interrupt();
	} else {
		return usage(&exits_mode);
	}
	expected = operation();
	if (operation == interrupt && expected)
		fail("membarrier");
	struct tally t = measure(&(struct load){ .operate = repeat }, argv + 4);

	uint64_t *latency = map(samples * sizeof *latency), backwards = 0;
	for (uint64_t i = 0; i < samples; i++) {
		uint64_t from = now();
		t.wrong += operation() != expected;
		uint64_t to = now();
		backwards += to < from;
		latency[i] = to - from;
	}
	say_latencies(latency, samples, backwards);
	finish(t);
	return 0;
}

const struct mode exits_mode = { "exits", "cpuid|port|hypercall|msr|ipi|mmio LEAF SAMPLES " WINDOW_ARGS, run };
