//go:build ignore

/* cpuid executes CPUID. In a virtual machine the hypervisor answers (Intel
 * SDM volume 3C, "Instructions That Cause VM Exits Unconditionally"; on AMD
 * intercepting is optional, but all do), so each is an exit of the guest of
 * the simplest kind. In a TDX or SEV-ES guest it is also an exception, whose
 * handler requests the exit. */
#include "measure.h"

#include <cpuid.h>

static uint64_t ask(uint64_t n)
{
	unsigned a, b, c, d, most = __get_cpuid_max(0, NULL);
	uint64_t wrong = 0;
	while (n--) {
		__cpuid(0, a, b, c, d);
		wrong += a != most;
	}
	return wrong;
}

static int run(int argc, char **argv)
{
	unsigned a, b, c, d;
	if (argc != 1 + window_args)
		return usage(&cpuid_mode);
	__cpuid(1, a, b, c, d);
	if (!(c >> 31)) { /* the bit by which hypervisors identify themselves */
		fprintf(stderr, "micro: no hypervisor is here; want a virtual machine\n");
		return 1;
	}
	finish(measure(&(struct load){ .operate = ask }, argv + 1));
	return 0;
}

const struct mode cpuid_mode = { "cpuid", WINDOW_ARGS, run };
