/* A job of about half a second, in two builds: the base, and one that does EXTRA
 * percent more of the same work and prints the same answer. The self-test of the
 * gate must tell the two apart, and must not tell the base from itself.
 *
 *     cc -O2 -DEXTRA=0 -o base gate.c && cc -O2 -DEXTRA=10 -o slow gate.c
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef EXTRA
#define EXTRA 0
#endif

enum { LENGTH = 1 << 16, ROUNDS = 100 };

static uint64_t next(uint64_t *state)
{
	/* xorshift64* (Vigna, ACM TOMS 2016). */
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 2685821657736338717u;
}

static int order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* round_ sorts LENGTH numbers and folds them into one. */
static uint64_t round_(uint64_t seed)
{
	static uint64_t numbers[LENGTH];
	for (int i = 0; i < LENGTH; i++)
		numbers[i] = next(&seed);
	qsort(numbers, LENGTH, sizeof *numbers, order);
	uint64_t sum = 0;
	for (int i = 0; i < LENGTH; i++)
		sum = sum * 31 + numbers[i];
	return sum;
}

int main(void)
{
	uint64_t answer = 0;
	for (int i = 0; i < ROUNDS; i++)
		answer ^= round_(i + 1);
	/* The extra rounds come in pairs that cancel, so that the answer is the same. */
	for (int i = 0; i < ROUNDS * EXTRA / 100 / 2; i++)
		answer ^= round_(1000 + i) ^ round_(1000 + i);
	printf("%016llx\n", (unsigned long long)answer);
	return 0;
}
