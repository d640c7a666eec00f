/*
 * causes spends known shares of its time in known causes of slowness, as the
 * external count against which explanations are tested.
 *
 *   cc -O2 -pthread -o causes causes.c -lssl -lcrypto
 *   causes [--name NAME] [--seconds S] [--seed N] [--shares CAUSE=SHARE,...] [--wait]
 *
 *   storm      system calls that do nothing (getppid)
 *   memory     pages given back (madvise) and touched again
 *   lock       threads that wait for one mutex, whose critical section computes
 *   handshake  TLS connections to a server on the loopback, opened one after
 *              another without resumption; the server is a process of its own,
 *              NAME-server
 *
 * The rest is computing in user space. It works in slices of a few milliseconds,
 * each of one cause drawn among those that are behind their share.
 *
 * Time is CPU time of all threads, by their own clocks, plus the time that they are
 * asleep until they have a mutex; this is what lock counts. All else is the CPU
 * time of its slices, of which handshake_inside is the part in SSL_connect and
 * memory_inside the part in touching pages.
 *
 * With --wait it says "ready" and starts at the next line of input, and afterwards
 * says "done" and waits for another, so that an observer can read between. It
 * prints one line of JSON: the time in seconds, the share of each cause in it,
 * and how many calls, pages, contended locks and handshakes there were.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum cause { STORM, MEMORY, LOCK, HANDSHAKE, COMPUTE, CAUSES };

static const char *const names[CAUSES] = { "storm", "memory", "lock", "handshake", "compute" };

enum {
	SLICE_NS = 3000000,
	RIVALS = 3,         /* threads that contend with the worker */
	CRITICAL_NS = 50000,
	PAGES = 256,
};

static double target[CAUSES];
static atomic_ullong spent[CAUSES], done[CAUSES]; /* nanoseconds, and events */
static atomic_ullong inside[CAUSES]; /* of spent, in what is counted: SSL_connect, the first touch of a page */

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "causes: %s: %s\n", what, strerror(errno));
	exit(1);
}

static _Noreturn void die_tls(const char *what)
{
	fprintf(stderr, "causes: %s: ", what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static _Noreturn void usage_error(const char *what)
{
	fprintf(stderr, "causes: %s; see the comment on top of causes.c\n", what);
	exit(4);
}

static uint64_t clock_ns(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t wall(void) { return clock_ns(CLOCK_MONOTONIC); }
static uint64_t cpu(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

static uint64_t seed;

/* xorshift64 (Marsaglia, J. Stat. Softw. 8(14), 2003). */
static uint64_t draw(void)
{
	if (!seed && getrandom(&seed, sizeof seed, 0) != sizeof seed)
		seed = wall();
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static void compute(uint64_t rounds)
{
	volatile uint64_t sink;
	uint64_t x = rounds;

	while (rounds--)
		x = x * 6364136223846793005u + 1442695040888963407u;
	sink = x;
	(void)sink;
}

/* Computes for that long, by the clock that needs no system call. */
static void compute_for(uint64_t ns)
{
	uint64_t end = wall() + ns;

	while (wall() < end)
		compute(2000);
}

/* A call that does nothing, without libc's function around it, whose time would be the program's own. */
static inline void null_call(void)
{
#ifdef __x86_64__
	long r = SYS_getppid;

	__asm__ volatile("syscall" : "+a"(r) : : "rcx", "r11", "memory");
#else
	syscall(SYS_getppid);
#endif
}

static void storm(void)
{
	for (int i = 0; i < 1000; i++)
		null_call();
	done[STORM] += 1000;
}

static void memory(void)
{
	static unsigned char *area;
	long page = sysconf(_SC_PAGESIZE);
	uint64_t began;

	if (!area) {
		area = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (area == MAP_FAILED)
			die("map memory");
		/* Every page must be a separate fault. */
		madvise(area, PAGES * page, MADV_NOHUGEPAGE);
	}
	began = cpu();
	for (int i = 0; i < PAGES; i++)
		area[i * page] = 1;
	inside[MEMORY] += cpu() - began;
	if (madvise(area, PAGES * page, MADV_DONTNEED))
		die("give pages back");
	done[MEMORY] += PAGES;
}

/* The worker and its rivals take turns at a mutex while the slice lasts. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t contest;
static atomic_bool contested;
static atomic_ullong rivals_cpu, rivals_queued;

/*
 * How long the thread has waited for a CPU so far, which is not waiting for a
 * lock (Documentation/scheduler/sched-stats.rst).
 */
static uint64_t queued(void)
{
	static _Thread_local int fd = -1;
	char text[80];
	unsigned long long on, waited;
	ssize_t n;

	if (fd < 0 && (fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) < 0)
		die("open schedstat");
	n = pread(fd, text, sizeof text - 1, 0);
	if (n < 0)
		die("read schedstat");
	text[n] = 0;
	if (sscanf(text, "%llu %llu", &on, &waited) != 2)
		die("parse schedstat");
	return waited;
}

static void take_turn(void)
{
	if (pthread_mutex_trylock(&mutex)) {
		/* To ask the kernel takes as long as some waits do: the clocks are read inside. */
		uint64_t queue = queued(), ran = cpu(), began = wall(), all, up;

		pthread_mutex_lock(&mutex);
		all = wall() - began;
		up = cpu() - ran;
		up += queued() - queue;
		spent[LOCK] += all > up ? all - up : 0;
		done[LOCK]++;
	}
	compute_for(CRITICAL_NS);
	pthread_mutex_unlock(&mutex);
	compute_for(CRITICAL_NS / 2);
}

static void *rival(void *unused)
{
	for (;;) {
		uint64_t began, queue;

		while (sem_wait(&contest))
			;
		began = cpu();
		queue = queued();
		while (contested)
			take_turn();
		rivals_cpu += cpu() - began;
		rivals_queued += queued() - queue;
	}
	return unused;
}

static void start_rivals(void)
{
	if (sem_init(&contest, 0, 0))
		die("make a semaphore");
	for (int i = 0; i < RIVALS; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, rival, NULL))
			die("start a thread");
	}
}

static void lock_slice(void)
{
	uint64_t end = wall() + SLICE_NS;

	contested = true;
	for (int i = 0; i < RIVALS; i++)
		sem_post(&contest);
	while (wall() < end)
		take_turn();
	contested = false;
}

static struct sockaddr_in server = { .sin_family = AF_INET };
static SSL_CTX *client;

/* A key and its self-signed certificate. */
static SSL_CTX *server_context(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	X509_NAME *subject = X509_get_subject_name(cert);

	X509_set_version(cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -60);
	X509_gmtime_adj(X509_getm_notAfter(cert), 24 * 60 * 60);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0);
	X509_set_issuer_name(cert, subject);
	X509_set_pubkey(cert, key);
	if (!X509_sign(cert, key, EVP_sha256()) || SSL_CTX_use_certificate(ctx, cert) != 1 || SSL_CTX_use_PrivateKey(ctx, key) != 1)
		die_tls("make a certificate");
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
	SSL_CTX_set_num_tickets(ctx, 0);
	return ctx;
}

static void serve(int listening)
{
	SSL_CTX *ctx = server_context();
	SSL *ssl = SSL_new(ctx);

	for (;;) {
		int fd = accept(listening, NULL, NULL);
		char end = 0;

		if (fd < 0)
			die("accept a connection");
		SSL_set_fd(ssl, fd);
		/* The client hangs up when it has been told that both have finished. */
		if (SSL_accept(ssl) == 1 && write(fd, &end, 1) == 1)
			(void)!read(fd, &end, 1);
		ERR_clear_error();
		close(fd);
		SSL_clear(ssl);
	}
}

static void start_server(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t size = sizeof server;
	pid_t parent = getpid();
	char name[32] = "";

	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&server, sizeof server) || listen(fd, 16) || getsockname(fd, (struct sockaddr *)&server, &size))
		die("listen on the loopback");
	switch (fork()) {
	case -1:
		die("start the server");
	case 0:
		prctl(PR_GET_NAME, name);
		prctl(PR_SET_NAME, strcat(name, "-server"));
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		serve(fd);
	}
	close(fd);
	client = SSL_CTX_new(TLS_client_method());
	if (!client)
		die_tls("make a client");
	SSL_CTX_set_session_cache_mode(client, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_verify(client, SSL_VERIFY_NONE, NULL);
}

static void handshake(void)
{
	/* Hanging up by a reset leaves no connection in TIME_WAIT, which would use up the ports. */
	struct linger reset = { .l_onoff = 1 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	SSL *ssl = SSL_new(client);
	uint64_t began;
	char end;

	if (fd < 0 || connect(fd, (struct sockaddr *)&server, sizeof server))
		die("connect to the server");
	SSL_set_fd(ssl, fd);
	began = cpu();
	if (SSL_connect(ssl) != 1)
		die_tls("shake hands");
	inside[HANDSHAKE] += cpu() - began;
	/* A reset before the server has read all would end its handshake. */
	if (read(fd, &end, 1) != 1)
		die("hear from the server");
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	SSL_free(ssl);
	close(fd);
	done[HANDSHAKE]++;
}

static uint64_t began_cpu;

/* The time of all threads so far. */
static uint64_t active(void) { return cpu() - began_cpu + rivals_cpu + spent[LOCK]; }

static enum cause next(void)
{
	enum cause behind[CAUSES];
	uint64_t all = active();
	int n = 0;

	for (enum cause c = 0; c < COMPUTE; c++)
		if (target[c] > 0 && spent[c] < target[c] * all)
			behind[n++] = c;
	/* Lock slices compute as well, so what computing lacks is not known by a sum of its own. */
	return n ? behind[draw() % n] : COMPUTE;
}

static void slice(enum cause c)
{
	uint64_t began = cpu();
	uint64_t length = SLICE_NS / 2 + draw() % SLICE_NS;

	if (c == LOCK) {
		lock_slice();
		return;
	}
	while (cpu() - began < length) {
		switch (c) {
		case STORM:
			storm();
			break;
		case MEMORY:
			memory();
			break;
		case HANDSHAKE:
			handshake();
			break;
		default:
			compute(50000);
		}
	}
	spent[c] += cpu() - began;
}

static void parse_shares(char *text)
{
	double sum = 0;

	for (char *part = strtok(text, ","); part; part = strtok(NULL, ",")) {
		char *value = strchr(part, '='), *end;
		int c;

		if (!value)
			usage_error("want CAUSE=SHARE");
		*value++ = 0;
		for (c = 0; c < COMPUTE && strcmp(part, names[c]); c++)
			;
		if (c == COMPUTE)
			usage_error("no such cause");
		target[c] = strtod(value, &end);
		if (end == value || *end || !(target[c] >= 0))
			usage_error("a share is a number from 0 to 1");
		sum += target[c];
	}
	if (sum > 1)
		usage_error("shares are more than 1 together");
}

static void await_line(void)
{
	int c;

	while ((c = getchar()) != '\n')
		if (c == EOF)
			exit(0);
}

static void print(uint64_t all, uint64_t queue)
{
	printf("{\"pid\":%d,\"active_seconds\":%.6f,\"queued_seconds\":%.6f,\"shares\":{", getpid(), all / 1e9, queue / 1e9);
	for (int c = 0; c < COMPUTE; c++)
		printf("\"%s\":%.6f,", names[c], (double)spent[c] / all);
	printf("\"memory_inside\":%.6f,\"handshake_inside\":%.6f},\"events\":{", (double)inside[MEMORY] / all, (double)inside[HANDSHAKE] / all);
	for (int c = 0; c < COMPUTE; c++)
		printf("%s\"%s\":%llu", c ? "," : "", names[c], (unsigned long long)done[c]);
	printf("}}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	double seconds = 10;
	int waits = 0;
	uint64_t end, all, queue;

	for (int i = 1; i < argc; i++) {
		char *value = i + 1 < argc ? argv[i + 1] : NULL, *rest;

		if (!strcmp(argv[i], "--wait")) {
			waits = 1;
			continue;
		}
		if (!value)
			usage_error("an option lacks its value, or there is no such option");
		if (!strcmp(argv[i], "--name")) {
			prctl(PR_SET_NAME, value);
		} else if (!strcmp(argv[i], "--seconds")) {
			seconds = strtod(value, &rest);
			if (rest == value || *rest || !(seconds > 0 && seconds < 1e6))
				usage_error("seconds are a number above 0");
		} else if (!strcmp(argv[i], "--seed")) {
			seed = strtoull(value, &rest, 10);
			if (rest == value || *rest)
				usage_error("a seed is a whole number");
		} else if (!strcmp(argv[i], "--shares")) {
			parse_shares(value);
		} else {
			usage_error("no such option");
		}
		i++;
	}
	if (target[HANDSHAKE] > 0)
		start_server();
	if (target[LOCK] > 0)
		start_rivals();
	if (waits) {
		puts("ready");
		fflush(stdout);
		await_line();
	}
	began_cpu = cpu();
	queue = queued();
	for (end = wall() + seconds * 1e9; wall() < end;)
		slice(next());
	all = active();
	print(all, queued() - queue + rivals_queued);
	if (waits) {
		puts("done");
		fflush(stdout);
		await_line();
	}
	return 0;
}
