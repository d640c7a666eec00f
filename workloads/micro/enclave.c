//go:build ignore

/* enclave measures entering an enclave and leaving it again. The enclave is
 * made through the in-tree driver and has three pages: a thread (TCS), its
 * save area and code that only returns. The interface is that of
 * arch/x86/include/uapi/asm/sgx.h, the structures those of the SDM, volume 3D. */
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { page = 4096, pages = 3, size = 4 * page, sigstruct_size = 1808 };

struct create { uint64_t src; };
struct add { uint64_t src, offset, length, secinfo, flags, count; };
struct init { uint64_t sigstruct; };
#define CREATE _IOW(0xa4, 0, struct create)
#define ADD _IOWR(0xa4, 1, struct add)
#define INIT _IOW(0xa4, 2, struct init)
_Static_assert(CREATE == 0x4008a400 && ADD == 0xc030a401 && INIT == 0x4008a402, "the ABI's numbers");

struct secs {
	uint64_t size, base;
	uint32_t ssa_frame_size, miscselect;
	uint8_t reserved[24];
	uint64_t attributes, xfrm;
	uint8_t rest[page - 64];
};
_Static_assert(sizeof(struct secs) == page && offsetof(struct secs, attributes) == 48 && offsetof(struct secs, xfrm) == 56, "SECS");

struct tcs {
	uint64_t state, flags, ossa;
	uint32_t cssa, nssa;
	uint64_t oentry, aep, ofsbase, ogsbase;
	uint32_t fslimit, gslimit;
	uint8_t rest[page - 72];
};
_Static_assert(sizeof(struct tcs) == page && offsetof(struct tcs, nssa) == 28 && offsetof(struct tcs, oentry) == 32 &&
	offsetof(struct tcs, fslimit) == 64, "TCS");

struct secinfo {
	_Alignas(64) uint64_t flags;
	uint8_t reserved[56];
};
_Static_assert(sizeof(struct secinfo) == 64, "SECINFO");

/* EENTER leaves the address behind itself in rcx; EEXIT goes to that in rbx. */
static const uint8_t code[] = {
	0x48, 0x89, 0xcb, /* mov %rcx, %rbx */
	0xb8, 0x04, 0x00, 0x00, 0x00, /* mov $4, %eax: EEXIT */
	0x0f, 0x01, 0xd7, /* enclu */
};

/* content holds what the pages begin as, kinds their SECINFO: TCS, then a page
 * that can be read and written, then one that can be read and executed. */
static _Alignas(page) uint8_t content[pages][page];
static const uint64_t kinds[pages] = { 0x100, 0x203, 0x205 };
static const int protection[pages] = { PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC };

static void fill(void)
{
	struct tcs t = { .ossa = page, .nssa = 1, .oentry = 2 * page, .fslimit = ~0u, .gslimit = ~0u };
	memcpy(content[0], &t, sizeof t);
	memcpy(content[2], code, sizeof code);
}

static char *base;

/* An interrupt leaves the enclave to the address in rcx with ERESUME in eax:
 * that address is this enclu itself, which so goes on inside. */
static uint64_t trips(uint64_t n)
{
	for (; n; n--) {
		uint64_t tcs = (uint64_t)base, leaf = 2, aep;
		__asm__ volatile("lea 1f(%%rip), %2\n1: enclu" : "+b"(tcs), "+a"(leaf), "=&c"(aep) : : "memory", "cc");
	}
	return 0;
}

static void make(const uint8_t *signature)
{
	int fd = open("/dev/sgx_enclave", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail("open /dev/sgx_enclave");
	char *area = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		fail("reserve the enclave's addresses");
	base = area + (size - (uintptr_t)area % size) % size;
	static _Alignas(page) struct secs secs;
	secs = (struct secs){ .size = size, .base = (uint64_t)base, .ssa_frame_size = 1, .attributes = 4, .xfrm = 3 };
	struct create create = { (uint64_t)&secs };
	if (ioctl(fd, CREATE, &create))
		fail("create an enclave (SGX_IOC_ENCLAVE_CREATE)");
	for (int i = 0; i < pages; i++) {
		struct secinfo info = { .flags = kinds[i] };
		struct add add = { (uint64_t)content[i], (uint64_t)i * page, page, (uint64_t)&info, 1, 0 };
		if (ioctl(fd, ADD, &add))
			fail("add a page to an enclave (SGX_IOC_ENCLAVE_ADD_PAGES)");
		if (mmap(base + i * page, page, protection[i], MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
			fail("map a page of an enclave");
	}
	static _Alignas(page) uint8_t copy[page];
	memcpy(copy, signature, sigstruct_size);
	struct init init = { (uint64_t)copy };
	int refused = ioctl(fd, INIT, &init);
	if (refused > 0) {
		fprintf(stderr, "micro: the processor refused the enclave (EINIT: %d)\n", refused);
		exit(1);
	}
	if (refused)
		fail("launch an enclave (SGX_IOC_ENCLAVE_INIT)");
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static int run(int argc, char **argv)
{
	fill();
	if (argc == 2 && !strcmp(argv[1], "pages")) {
		for (int i = 0; i < pages; i++) {
			printf("%llx ", (unsigned long long)kinds[i]);
			for (int j = 0; j < page; j++)
				printf("%02x", content[i][j]);
			putchar('\n');
		}
		return 0;
	}
	uint8_t signature[sigstruct_size];
	if (argc != 2 + window_args || strlen(argv[1]) != 2 * sigstruct_size)
		return usage(&enclave_mode);
	for (int i = 0; i < sigstruct_size; i++) {
		int high = digit(argv[1][2 * i]), low = digit(argv[1][2 * i + 1]);
		if (high < 0 || low < 0)
			return usage(&enclave_mode);
		signature[i] = high << 4 | low;
	}
	make(signature);
	static const struct load load = { .operate = trips };
	finish(measure(&load, argv + 2));
	return 0;
}

const struct mode enclave_mode = { "enclave", "pages | SIGSTRUCT " WINDOW_ARGS, run };
