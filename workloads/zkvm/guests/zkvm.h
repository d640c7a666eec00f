// What guests share: the system calls of SP1 v5, SHA-256, and how a guest ends. Each guest is one translation unit without a C library.
#pragma once

typedef unsigned char uint8_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

// Numbers of system calls, and the file descriptor of public values.
enum {
	HALT = 0x00, WRITE = 0x02, COMMIT = 0x10, COMMIT_DEFERRED_PROOFS = 0x1a, HINT_READ = 0xf1,
	PUBLIC_VALUES = 13
};

// INPUT is where the input is put: memory above the program that nothing has touched.
#define INPUT ((uint8_t *)0x00400000)

// The stack grows down from below the program, which guest.ld puts at 0x00200800.
__asm__(".section .text.start, \"ax\"\n"
	".globl _start\n"
	"_start:\n"
	"	li sp, 0x00200400\n"
	"	j run\n");

static inline void ecall(uint32_t number, uint32_t a, uint32_t b, uint32_t c)
{
	register uint32_t t0 __asm__("t0") = number;
	register uint32_t a0 __asm__("a0") = a;
	register uint32_t a1 __asm__("a1") = b;
	register uint32_t a2 __asm__("a2") = c;
	__asm__ volatile("ecall" : "+r"(t0) : "r"(a0), "r"(a1), "r"(a2) : "memory");
}

// The compiler calls these for what it makes of loops and of assignments.
void *memcpy(void *to, const void *from, uint32_t n)
{
	uint8_t *t = to;
	const uint8_t *f = from;
	while (n--)
		*t++ = *f++;
	return to;
}

void *memset(void *to, int byte, uint32_t n)
{
	uint8_t *t = to;
	while (n--)
		*t++ = byte;
	return to;
}

// input reads the whole input, which has n bytes.
static inline const uint8_t *input(uint32_t n)
{
	ecall(HINT_READ, (uint32_t)INPUT, n, 0);
	return INPUT;
}

static inline __attribute__((noreturn)) void halt(uint32_t code)
{
	for (;;)
		ecall(HALT, code, 0, 0);
}

// bytes of the most significant first, as SHA-256 and certificates have them
static inline uint32_t big(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void put_big(uint8_t *p, uint32_t v)
{
	p[0] = v >> 24;
	p[1] = v >> 16;
	p[2] = v >> 8;
	p[3] = v;
}

// SHA-256 (FIPS 180-4, section 6.2).
static const uint32_t sha256_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t turn(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static __attribute__((noinline)) void sha256_block(uint32_t state[8], const uint8_t *block)
{
	uint32_t w[64];
	for (int i = 0; i < 16; i++)
		w[i] = big(block + 4 * i);
	for (int i = 16; i < 64; i++) {
		uint32_t x = w[i - 15], y = w[i - 2];
		w[i] = w[i - 16] + w[i - 7] + (turn(x, 7) ^ turn(x, 18) ^ x >> 3) + (turn(y, 17) ^ turn(y, 19) ^ y >> 10);
	}
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
	for (int i = 0; i < 64; i++) {
		uint32_t t = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + sha256_constants[i] + w[i];
		uint32_t u = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
		h = g;
		g = f;
		f = e;
		e = d + t;
		d = c;
		c = b;
		b = a;
		a = t + u;
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
	state[5] += f;
	state[6] += g;
	state[7] += h;
}

// sha256 hashes n bytes; from and to may be the same.
static __attribute__((noinline)) void sha256(uint8_t to[32], const uint8_t *from, uint32_t n)
{
	uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	uint32_t left = n;
	for (; left >= 64; left -= 64, from += 64)
		sha256_block(state, from);
	uint8_t last[128] = {0}; // what is left, a bit, zeros, and the length in bits
	memcpy(last, from, left);
	last[left] = 0x80;
	uint32_t end = left < 56 ? 64 : 128;
	put_big(last + end - 8, n >> 29);
	put_big(last + end - 4, n << 3);
	for (uint32_t at = 0; at < end; at += 64)
		sha256_block(state, last + at);
	for (int i = 0; i < 8; i++)
		put_big(to + 4 * i, state[i]);
}

// finish makes n bytes the public values, and ends the guest. The proof holds their SHA-256.
static __attribute__((noreturn)) void finish(const uint8_t *values, uint32_t n)
{
	ecall(WRITE, PUBLIC_VALUES, (uint32_t)values, n);
	uint8_t sum[32];
	sha256(sum, values, n);
	for (int i = 0; i < 8; i++) {
		const uint8_t *b = sum + 4 * i; // a word's bytes, the least significant first
		ecall(COMMIT, i, b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24, 0);
	}
	for (int i = 0; i < 8; i++)
		ecall(COMMIT_DEFERRED_PROOFS, i, 0, 0);
	halt(0);
}
