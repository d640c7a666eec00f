/*
 * Stands for libsgx_urts.so of the Intel SGX SDK: sgx_ecall is exported, and
 * what the enclave calls goes through the hidden sgx_ocall to a function of the
 * host's table, as psw/urts does it. There is no enclave.
 */
#include <stddef.h>

struct table { size_t n; void (*function[])(void *); };

__attribute__((visibility("hidden"), noinline)) int sgx_ocall(unsigned index, const struct table *t, void *arg)
{
	if (index >= t->n)
		return 1;
	t->function[index](arg);
	return 0;
}

/* ms is the number of calls that the enclave makes, to each function in turn. */
__attribute__((visibility("default"))) int sgx_ecall(unsigned long eid, int index, const struct table *t, long *ms)
{
	for (long i = 0; i < *ms; i++)
		if (sgx_ocall(i % t->n, t, ms))
			return 1;
	return 0;
}
