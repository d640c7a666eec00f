/*
 * A host program of the Intel SDK: "host ECALLS OCALLS" makes so many calls of
 * the enclave, in each of which the enclave makes so many back. It starts at
 * each line of input, and prints one when it is done.
 */
#include <stdio.h>
#include <stdlib.h>

struct table { size_t n; void (*function[2])(void *); };
int sgx_ecall(unsigned long eid, int index, const struct table *t, long *ms);

static volatile long done;
static void print(void *ms) { done += 1; }
static void read_file(void *ms) { done += 2; }
static const struct table ocalls = { 2, { print, read_file } };

#ifdef OCCLUM
int occlum_pal_init(void *attr);
#endif

int main(int argc, char **argv)
{
	char line[16];
	long n = atol(argv[1]), ms = atol(argv[2]);

	setvbuf(stdout, NULL, _IONBF, 0);
	puts("ready");
#ifdef OCCLUM
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	occlum_pal_init(NULL);
	puts("init");
#endif
	while (fgets(line, sizeof(line), stdin)) {
		for (long i = 0; i < n; i++)
			if (sgx_ecall(1, 0, &ocalls, &ms))
				return 1;
		puts("done");
	}
	return 0;
}
