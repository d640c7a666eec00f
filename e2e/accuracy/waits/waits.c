// Preloaded into a program (LD_PRELOAD), this library counts its calls of epoll_wait(2) in the file that WAITS
// names: one 64-bit number in the machine's byte order. It costs a call an addition, and the kernel nothing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t *calls;
static int (*real)(int, struct epoll_event *, int, int);

__attribute__((constructor)) static void start(void)
{
	const char *name = getenv("WAITS");
	int fd = open(name ? name : "", O_RDWR | O_CLOEXEC);

	real = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
	if (fd >= 0 && !ftruncate(fd, sizeof(*calls)))
		calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || !calls || calls == MAP_FAILED || !real) {
		perror("waits: map the file that WAITS names");
		_exit(1);
	}
	close(fd);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	__atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
	return real(epoll, events, most, timeout);
}
