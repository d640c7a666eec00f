/* A job of about half a second, in two builds: the base, and one that does EXTRA
 * percent more of the same work and prints the same answer. The self-test of the
 * gate must tell the two apart, and must not tell the base from itself.
 *
 *     cc -O2 -DEXTRA=0 -o base gate.c && cc -O2 -DEXTRA=10 -o slow gate.c
 *
 * The work is to follow a linked list that is one cycle through all of its
 * elements in random order (Sattolo's algorithm): each step waits for the load
 * before it, so the time is that of the second-level cache, which a neighbour on
 * the same core disturbs less than it disturbs arithmetic.
 */
#include <stdint.h>
#include <stdio.h>

#ifndef EXTRA
#define EXTRA 0
#endif

enum { LENGTH = 1 << 16, ROUNDS = 2800 };

static uint32_t next[LENGTH];

static uint64_t draw(uint64_t *state)
{
	/* xorshift64* (Vigna, ACM TOMS 2016). */
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 2685821657736338717u;
}

int main(void)
{
	uint64_t state = 20261121;
	for (uint32_t i = 0; i < LENGTH; i++)
		next[i] = i;
	for (uint32_t i = LENGTH - 1; i > 0; i--) {
		uint32_t j = (draw(&state) >> 32) % i, n = next[i];
		next[i] = next[j];
		next[j] = n;
	}
	uint32_t at = 0, rounds = ROUNDS + ROUNDS * EXTRA / 100;
	/* A round ends where it began, so rounds more or less give the same answer. */
	for (uint32_t r = 0; r < rounds; r++)
		for (uint32_t i = 0; i < LENGTH; i++)
			at = next[at];
	for (uint32_t i = 0; i < 12345; i++)
		at = next[at];
	printf("%u\n", at);
	return 0;
}
