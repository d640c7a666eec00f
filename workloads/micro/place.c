//go:build ignore

#include "place.h"
#include "micro.h"

#include <sched.h>

void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		fail("pin a thread to a CPU");
}

int placement(const char *where)
{
	return !strcmp(where, "any") || !strcmp(where, "same") || !strcmp(where, "smt") || !strcmp(where, "cross");
}

/* siblings reads which CPUs share cpu's core; false where the kernel does not say. */
static int siblings(int cpu, cpu_set_t *set)
{
	char path[96];
	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
	FILE *f = fopen(path, "r");
	if (!f)
		return 0;
	int from, to, end = ',';
	CPU_ZERO(set);
	while (end == ',' && fscanf(f, "%d", &from) == 1) {
		to = from;
		end = getc(f);
		if (end == '-' && fscanf(f, "%d", &to) == 1)
			end = getc(f);
		for (; from >= 0 && from <= to && from < CPU_SETSIZE; from++)
			CPU_SET(from, set);
	}
	fclose(f);
	return CPU_ISSET(cpu, set);
}

void place(const char *where, int cpu[2])
{
	cpu_set_t may, core;
	int said = 0, same = !strcmp(where, "same"), smt = !strcmp(where, "smt");
	cpu[0] = cpu[1] = -1;
	if (!strcmp(where, "any"))
		return;
	CPU_ZERO(&may);
	if (sched_getaffinity(0, sizeof may, &may))
		fail("read the CPU affinity");
	for (int a = 0; a < CPU_SETSIZE; a++) {
		if (!CPU_ISSET(a, &may))
			continue;
		int known = siblings(a, &core);
		said |= known;
		for (int b = 0; b < CPU_SETSIZE; b++) {
			if (!CPU_ISSET(b, &may))
				continue;
			/* Where the topology is hidden, another CPU passes for another core. */
			int shared = known && CPU_ISSET(b, &core);
			if (same ? a == b : a != b && (smt ? shared : !shared)) {
				cpu[0] = a, cpu[1] = b;
				say("cpus %d %d %s", a, b, known ? "known" : "hidden");
				return;
			}
		}
	}
	fprintf(stderr, "micro: no two of the %d CPUs allowed here are %s%s; try another placement\n", CPU_COUNT(&may),
		smt ? "threads of one core" : "on different cores", said ? "" : " as far as the kernel says");
	exit(1);
}
