/*
 * Stands for Gramine's SGX loader, with the labels and the order of events of
 * its host_entry.S: "loader ECALLS OCALLS AEX". The asynchronous exits begin with
 * the same locked increment; eresume_pointer is where the real one has ENCLU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static long tcb[8];

__attribute__((noinline)) void dump_and_reset_stats(void) { __asm__ volatile(""); }

void async_exit_pointer(void);
__asm__(".text\n"
	".globl async_exit_pointer\n.type async_exit_pointer, @function\n"
	"async_exit_pointer:\n"
	"\tlock incq %gs:0x8\n"
	"\tmovb $1, %gs:0x10\n"
	"\tpushq %rax\n"
	"\tcall dump_and_reset_stats\n"
	"\tpopq %rax\n"
	".globl eresume_pointer\n.type eresume_pointer, @function\n"
	"eresume_pointer:\n"
	"\tret\n");

__attribute__((noinline)) void sgx_raise(int event) { __asm__ volatile(""); }

__attribute__((noinline)) int sgx_ecall(long code, void *ms)
{
	long *n = ms;

	for (long i = 0; i < n[0]; i++)
		dump_and_reset_stats();
	for (long i = 0; i < n[1]; i++)
		async_exit_pointer();
	return 0;
}

int main(int argc, char **argv)
{
	char line[16];
	long n[2] = { atol(argv[2]), atol(argv[3]) };

	syscall(SYS_arch_prctl, ARCH_SET_GS, tcb);
	setvbuf(stdout, NULL, _IONBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		for (long i = 0; i < atol(argv[1]); i++)
			sgx_ecall(0, n);
		sgx_raise(0);
		printf("done %ld\n", tcb[1]);
	}
	return 0;
}
