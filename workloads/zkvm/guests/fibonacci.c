// Fibonacci's sequence modulo 2^32, a few instructions a step. Input: n. Public values: n and F(n), with F(0) = 0 and F(1) = 1, each four bytes,
// the least significant first.
#include "zkvm.h"

void run(void)
{
	uint32_t n = *(const uint32_t *)input(4), a = 0, b = 1;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t next = a + b;
		a = b;
		b = next;
	}
	uint32_t values[2] = {n, a};
	finish((const uint8_t *)values, sizeof values);
}
