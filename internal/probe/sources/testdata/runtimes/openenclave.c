/*
 * Stands for a host program with Open Enclave linked in: "host ECALLS OCALLS".
 * The dispatcher runs at each exit, and its first argument says which kind it
 * is. The file in argv[3], called sgx_enclave, is mapped as the device would be.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((noinline)) int __oe_dispatch_ocall(uint64_t arg1, uint64_t arg2)
{
	__asm__ volatile("");
	return arg1 >> 48 != 3;
}

__attribute__((noinline)) int oe_ecall(void *enclave, uint16_t func, long n)
{
	for (long i = 0; i < n; i++)
		if (__oe_dispatch_ocall((uint64_t)3 << 48, i))
			return 1;
	return !__oe_dispatch_ocall((uint64_t)2 << 48, 0);
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc > 3 && mmap(NULL, 4096, PROT_READ, MAP_SHARED, open(argv[3], O_RDONLY), 0) == MAP_FAILED)
		return 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		for (long i = 0; i < atol(argv[1]); i++)
			if (oe_ecall(NULL, 0, atol(argv[2])))
				return 1;
		puts("done");
	}
	return 0;
}
