// The programs of the twelve situations (truth/README.md). A program is named by its file, and ends by itself after ten minutes.
//
//	cc -static -O2 -pthread -o lockfight programs.c; ./lockfight locks
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

// used is the CPU time of the calling thread: the work of a request does not depend on how long it waits.
static double used(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void compute(double seconds)
{
	volatile unsigned long x = 0;
	for (double end = used() + seconds; used() < end;)
		for (int i = 0; i < 400000; i++) // a fraction of a millisecond: this clock enters the kernel
			x += i;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *fight(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&mutex);
		compute(1e-3);
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

static void locks(void)
{
	pthread_t t;
	for (int i = 1; i < 8; i++)
		pthread_create(&t, NULL, fight, NULL);
	fight(NULL);
}

static void syncs(const char *path)
{
	char request[256] = {0};
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0) {
		perror(path);
		exit(1);
	}
	for (long n = 0;; n++) { // the file stays small
		if (pwrite(fd, request, sizeof request, n % 4096 * sizeof request) != sizeof request || fsync(fd)) {
			perror(path);
			exit(1);
		}
	}
}

// serves computes 2 ms for each request, of which one is due every 5 ms.
static void serves(void)
{
	for (double due = now();; due += 5e-3) {
		double left = due - now();
		if (left > 0)
			usleep(left * 1e6);
		else if (left < -1)
			due = now(); // it answers what it can
		compute(2e-3);
	}
}

// asks calls clock_gettime by syscall(2) 300,000 times a second.
static void asks(void)
{
	struct timespec t;
	for (double due = now();; due += 1e-3) {
		for (int i = 0; i < 300; i++)
			syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
		double left = due - now();
		if (left > 0)
			usleep(left * 1e6);
		else if (left < -1)
			due = now();
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	alarm(600);
	if (argc > 3) { // bound to a CPU
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(atoi(argv[3]), &set);
		if (sched_setaffinity(0, sizeof set, &set)) {
			perror("sched_setaffinity");
			return 1;
		}
	}
	if (!strcmp(what, "locks"))
		locks();
	else if (!strcmp(what, "syncs") && argc > 2)
		syncs(argv[2]);
	else if (!strcmp(what, "serves"))
		serves();
	else if (!strcmp(what, "asks"))
		asks();
	else if (!strcmp(what, "computes"))
		for (;;)
			compute(1);
	fprintf(stderr, "usage: %s locks|serves|asks|computes|syncs FILE [CPU]\n", argv[0]);
	return 2;
}
