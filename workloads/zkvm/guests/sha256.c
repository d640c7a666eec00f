// A chain of n hashes: each is the SHA-256 of the one before, the first that of 32 zero bytes. Input: n. Public values: n (four bytes, the least
// significant first) and the last hash.
#include "zkvm.h"

void run(void)
{
	uint8_t values[4 + 32] = {0};
	uint32_t n = *(const uint32_t *)input(4);
	memcpy(values, &n, sizeof n);
	for (uint32_t i = 0; i < n; i++)
		sha256(values + 4, values + 4, 32);
	finish(values, sizeof values);
}
