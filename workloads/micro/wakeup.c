//go:build ignore

/* wakeup passes a number back and forth between two threads that sleep in
 * between. The partner adds one, so a reply cannot be made up. */
#include "measure.h"
#include "place.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of linux/futex.h, which comes with the kernel and not with every C library. */
enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 };

/* A way holds one direction; no message is 0. */
struct way {
	uint32_t word; /* futex */
	int in, out;   /* pipe, or the same eventfd twice */
} __attribute__((aligned(128)));

static struct way there, back;
static void (*send)(struct way *, uint64_t);
static uint64_t (*receive)(struct way *);

static void futex_send(struct way *w, uint64_t v)
{
	__atomic_store_n(&w->word, (uint32_t)v, __ATOMIC_SEQ_CST);
	if (syscall(SYS_futex, &w->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0)
		fail("futex wake");
}

static uint64_t futex_receive(struct way *w)
{
	uint32_t v;
	while (!(v = __atomic_exchange_n(&w->word, 0, __ATOMIC_SEQ_CST)))
		if (syscall(SYS_futex, &w->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) < 0 && errno != EAGAIN && errno != EINTR)
			fail("futex wait");
	return v;
}

/* Eight bytes either way: what a pipe carries and what an eventfd counts. */
static void file_send(struct way *w, uint64_t v)
{
	if (write(w->in, &v, sizeof v) != sizeof v)
		fail("send");
}

static uint64_t file_receive(struct way *w)
{
	uint64_t v;
	if (read(w->out, &v, sizeof v) != sizeof v)
		fail("receive");
	return v;
}

static void open_pipe(struct way *w)
{
	int fd[2];
	if (pipe(fd))
		fail("make a pipe");
	w->in = fd[1], w->out = fd[0];
}

static void open_eventfd(struct way *w)
{
	w->in = w->out = eventfd(0, 0);
	if (w->in < 0)
		fail("make an eventfd");
}

/* While sampling, each wake-up is timed: the sender notes when, the woken thread
 * how long ago. The two never run at once, and the message orders them. */
static int sampling;
static uint64_t sent, *latency, timed, backwards;

static void tell(struct way *w, uint64_t v)
{
	if (sampling)
		sent = now();
	send(w, v);
}

static uint64_t hear(struct way *w)
{
	uint64_t v = receive(w);
	if (sampling) {
		uint64_t woken = now();
		backwards += woken < sent;
		latency[timed++] = woken - sent;
	}
	return v;
}

static void *partner(void *cpu)
{
	if (*(int *)cpu >= 0)
		pin(*(int *)cpu);
	for (;;)
		tell(&back, hear(&there) + 1);
	return NULL;
}

static uint64_t trips(uint64_t n)
{
	uint64_t wrong = 0;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t v = 1 + (i & 0xffff);
		tell(&there, v);
		wrong += hear(&back) != v + 1;
	}
	return wrong;
}

/* sample times the 2n wake-ups of n trips, after the windows, because
 * reading the clock would make those longer. */
static uint64_t sample(uint64_t trip)
{
	uint64_t n = 2 * trip;
	latency = map(n * sizeof *latency);
	sampling = 1;
	uint64_t wrong = trips(trip);
	sampling = 0;
	say_latencies(latency, n, backwards);
	return wrong;
}

static int run(int argc, char **argv)
{
	if (argc != 4 + window_args)
		return usage(&wakeup_mode);
	send = file_send, receive = file_receive;
	if (!strcmp(argv[1], "futex"))
		send = futex_send, receive = futex_receive;
	else if (!strcmp(argv[1], "eventfd"))
		open_eventfd(&there), open_eventfd(&back);
	else if (!strcmp(argv[1], "pipe"))
		open_pipe(&there), open_pipe(&back);
	else
		return usage(&wakeup_mode);

	if (!placement(argv[2]))
		return usage(&wakeup_mode);

	int cpu[2];
	place(argv[2], cpu);
	uint64_t sampled = number(argv[3], 1);
	pthread_t thread;
	errno = pthread_create(&thread, NULL, partner, &cpu[1]);
	if (errno)
		fail("start a thread");
	if (cpu[0] >= 0)
		pin(cpu[0]);
	struct tally t = measure(&(struct load){ .operate = trips }, argv + 4);
	t.wrong += sample(sampled);
	finish(t);
	return 0;
}

const struct mode wakeup_mode = { "wakeup", "futex|eventfd|pipe " PLACES " TRIPS " WINDOW_ARGS, run };
