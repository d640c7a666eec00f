//go:build ignore

/* agent runs jobs for the harness where no shell and no sshd is: as the first
 * program of a guest it listens on the second serial port; otherwise on its
 * standard input, and it then removes the FOLDERs when that ends.
 *
 * Both sides send frames: a tag, the length as four bytes (big endian), the
 * bytes. A request is a frame whose bytes are frames again, the fields, each
 * followed by a zero byte that its length does not count.
 *
 *   P put a file      n name, m mode (octal), c content
 *   X run a program   k its key (one byte), a argument..., e NAME=VALUE..., d folder,
 *                     i standard input, r ready line, q what to answer it with
 *   S stop a program  t the milliseconds from SIGTERM to its process group to SIGKILL, k its key
 *   Q end             power off, or remove the folders
 *
 * It says
 *
 *   H hello           "VERSION WINDOW MACHINE RELEASE BEGAN NOW": the nanoseconds of this
 *                     machine's clock (CLOCK_MONOTONIC) when the agent began as the first
 *                     program of a guest (otherwise 0), and now
 *   A go on           after each WINDOW bytes of a request that is longer than
 *                     that: a serial line has no flow control (0: not needed)
 *   K done            a file is there, a program was started, or told to end
 *   F refused         the reason
 *   o, e              a key and bytes of that program's standard output or error, as
 *                     they come
 *   Z ended           a key and "STATUS SIGNAL USER SYSTEM MAXRSS": microseconds and
 *                     KiB of wait4(2); SIGNAL is 0, or what ended it
 *
 * Programs run side by side. A, K and F answer the request under way, of which there
 * is one at a time; the rest comes between. An input that ends ends the programs'
 * process groups. */
#include "guest.h"
#include "micro.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define VERSION 4
#define SERIAL_WINDOW 2048 /* below the 4 KiB of a tty's input (N_TTY_BUF_SIZE) */
#define MOST (1u << 30)    /* bytes of a request */

static int in = 0, out = 1;
static unsigned window;
static char **folders; /* to remove at the end */

static int drop(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

struct job {
	struct job *next;
	char key;
	char *request; /* what the fields below point into */
	char **argv, *folder, *ready;
	char *input, *answer;
	size_t input_n, answer_n, at;
	int differs; /* the line in progress is not the ready line */
	pid_t pid;
	int talk, says, warns; /* its standard input (-1: closed), output and error */
	int ended, status;
	struct rusage used;
	uint64_t until; /* when it is not waited for any more, by now(); 0: not yet known */
};

static struct job *jobs;

#define SECOND 1000000000ull

/* end ends the programs' groups (SIGTERM, three seconds, SIGKILL), then itself. Nobody hears what they say. */
static _Noreturn void end(void)
{
	int left = 0;
	for (struct job *j = jobs; j; j = j->next)
		if (!j->ended)
			kill(-j->pid, SIGTERM), left++;
	for (int i = 0; i < 300 && left > 0; i++) {
		for (struct job *j = jobs; j; j = j->next)
			if (!j->ended && waitpid(j->pid, NULL, WNOHANG) != 0)
				j->ended = 1, left--;
		usleep(10000);
	}
	for (struct job *j = jobs; j; j = j->next)
		kill(-j->pid, SIGKILL);
	if (getpid() == 1) {
		sync();
		reboot(RB_POWER_OFF);
		for (;;)
			pause();
	}
	for (; *folders; folders++)
		nftw(*folders, drop, 16, FTW_DEPTH | FTW_PHYS);
	exit(0);
}

static void put(const void *b, size_t n)
{
	for (const char *p = b; n > 0;) {
		ssize_t w = write(out, p, n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			end();
		p += w, n -= w;
	}
}

static void frame(char tag, const void *b, size_t n)
{
	unsigned char head[5] = { tag, n >> 24, n >> 16, n >> 8, n };
	/* One write if it fits: each is a packet or an interrupt. */
	char all[sizeof head + 4096];
	memcpy(all, head, sizeof head);
	if (n <= sizeof all - sizeof head) {
		if (n)
			memcpy(all + sizeof head, b, n);
		put(all, sizeof head + n);
		return;
	}
	put(head, sizeof head);
	put(b, n);
}

static void refuse(const char *what)
{
	char why[512];
	int n = snprintf(why, sizeof why, "%s: %s", what, strerror(errno));
	frame('F', why, n < (int)sizeof why ? n : (int)sizeof why - 1);
}

static void take(char *b, size_t n)
{
	while (n > 0) {
		ssize_t r = read(in, b, n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			end();
		b += r, n -= r;
	}
}

static uint32_t length(const char *b)
{
	const unsigned char *u = (const unsigned char *)b;
	return (uint32_t)u[0] << 24 | u[1] << 16 | u[2] << 8 | u[3];
}

/* field walks through the fields of a request: it returns the tag of the
 * next one, or 0 after the last. */
static char field(char **at, char *stop, char **value, size_t *n)
{
	if (stop - *at < 6)
		return 0;
	char tag = **at;
	*n = length(*at + 1);
	if (*n > (size_t)(stop - *at - 6))
		return 0;
	*value = *at + 5;
	(*value)[*n] = 0;
	*at += 6 + *n;
	return tag;
}

static void put_file(char *at, char *stop)
{
	char *value, *name = "", *content = NULL, tag;
	size_t n, size = 0;
	mode_t mode = 0644;
	while ((tag = field(&at, stop, &value, &n)))
		switch (tag) {
		case 'n': name = value; break;
		case 'm': mode = strtoul(value, NULL, 8); break;
		case 'c': content = value, size = n; break;
		}
	for (char *s = name + 1; *name && (s = strchr(s, '/')); s++) {
		*s = 0;
		mkdir(name, 0755);
		*s = '/';
	}
	unlink(name); /* a running program cannot be written (ETXTBSY) */
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	if (fd < 0) {
		refuse(name);
		return;
	}
	fchmod(fd, mode);
	ssize_t w = 1;
	for (size_t done = 0; done < size && w > 0; done += w)
		w = write(fd, content + done, size - done);
	if (w <= 0)
		refuse(name);
	else
		frame('K', NULL, 0);
	close(fd);
}

/* answer looks for the ready line in the program's output. */
static void answer(struct job *j, const char *b, size_t n)
{
	for (size_t i = 0; j->talk >= 0 && i < n; i++) {
		if (b[i] != '\n') {
			j->differs |= !j->ready[j->at] || j->ready[j->at] != b[i];
			j->at += !j->differs;
			continue;
		}
		if (!j->differs && !j->ready[j->at]) {
			for (size_t done = 0; done < j->answer_n;) {
				ssize_t w = write(j->talk, j->answer + done, j->answer_n - done);
				if (w <= 0)
					break; /* it has gone: its status will say so */
				done += w;
			}
			close(j->talk);
			j->talk = -1;
		}
		j->at = 0, j->differs = 0;
	}
}

/* forward sends available output; it returns 0 at the end of the stream. */
static int forward(struct job *j, int fd, char tag)
{
	static char b[1 + 65536];
	ssize_t r = read(fd, b + 1, sizeof b - 1);
	if (r < 0)
		return errno == EINTR || errno == EAGAIN;
	if (r == 0)
		return 0;
	b[0] = j->key;
	frame(tag, b, r + 1);
	if (tag == 'o')
		answer(j, b + 1, r);
	return 1;
}

/* input makes the program's standard input: all of it at once, or one end of
 * a pipe whose other end waits for the ready line. */
static int input(struct job *j)
{
	j->talk = -1;
	if (!j->ready) {
		int fd = memfd_create("stdin", MFD_CLOEXEC);
		if (fd >= 0 && j->input_n && write(fd, j->input, j->input_n) != (ssize_t)j->input_n)
			return -1;
		if (fd >= 0)
			lseek(fd, 0, SEEK_SET);
		return fd;
	}
	int p[2];
	if (pipe2(p, O_CLOEXEC))
		return -1;
	/* Room for everything, and no waiting: a program that reads nothing must not hold us up. */
	if (fcntl(p[1], F_SETPIPE_SZ, (int)(j->input_n + j->answer_n + 65536)) < 0 || fcntl(p[1], F_SETFL, O_NONBLOCK))
		return -1;
	j->talk = p[1];
	if (j->input_n && write(p[1], j->input, j->input_n) != (ssize_t)j->input_n)
		return -1;
	return p[0];
}

static void nothing(int sig) { (void)sig; }

/* started forks and returns whether the program was executed. */
static int started(struct job *j, char *at, char *stop)
{
	int o[2], e[2], trouble[2], stdin_fd = input(j);
	if (stdin_fd < 0 || pipe2(o, O_CLOEXEC) || pipe2(e, O_CLOEXEC) || pipe2(trouble, O_CLOEXEC)) {
		refuse("make pipes");
		return 0;
	}
	j->pid = fork();
	if (j->pid == 0) {
		char *value, tag;
		size_t n;
		sigset_t none;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGPIPE, SIG_DFL);
		signal(SIGCHLD, SIG_DFL);
		setpgid(0, 0);
		dup2(stdin_fd, 0), dup2(o[1], 1), dup2(e[1], 2);
		while ((tag = field(&at, stop, &value, &n)))
			if (tag == 'e')
				putenv(value);
		if (!j->folder || !chdir(j->folder))
			execvp(j->argv[0], j->argv);
		int why = errno;
		(void)!write(trouble[1], &why, sizeof why);
		_exit(127);
	}
	close(stdin_fd), close(o[1]), close(e[1]), close(trouble[1]);
	j->says = o[0], j->warns = e[0];
	int why = j->pid < 0 ? errno : 0;
	(void)!read(trouble[0], &why, sizeof why);
	close(trouble[0]);
	if (!why)
		return 1;
	errno = why;
	refuse(j->argv[0]);
	if (j->pid > 0)
		waitpid(j->pid, NULL, 0);
	close(o[0]), close(e[0]);
	if (j->talk >= 0)
		close(j->talk);
	return 0;
}

/* run_job starts a program and keeps the request; it returns 0 if it did not. */
static int run_job(char *request, char *at, char *stop)
{
	struct job *j = calloc(1, sizeof *j);
	char *value, *first = at, tag;
	size_t n, args = 0;
	if (!j || !(j->argv = calloc((stop - at) / 6 + 1, sizeof *j->argv)))
		fail("allocate");
	while ((tag = field(&at, stop, &value, &n)))
		switch (tag) {
		case 'k': j->key = *value; break;
		case 'a': j->argv[args++] = value; break;
		case 'd': j->folder = value; break;
		case 'i': j->input = value, j->input_n = n; break;
		case 'r': j->ready = value; break;
		case 'q': j->answer = value, j->answer_n = n; break;
		}
	errno = EINVAL;
	if (!args)
		refuse("no program");
	if (!args || !started(j, first, stop)) {
		free(j->argv);
		free(j);
		return 0;
	}
	j->request = request, j->next = jobs, jobs = j;
	frame('K', NULL, 0);
	return 1;
}

static void stop_job(char *at, char *stop)
{
	char *value, tag;
	size_t n;
	uint64_t grace = 0;
	while ((tag = field(&at, stop, &value, &n))) {
		if (tag == 't')
			grace = strtoull(value, NULL, 10) * (SECOND / 1000);
		for (struct job *j = jobs; j && tag == 'k'; j = j->next)
			if (j->key == *value && !j->ended) { /* else its end is on its way */
				kill(-j->pid, SIGTERM);
				j->until = now() + grace;
			}
	}
	frame('K', NULL, 0);
}

/* reap notes which programs have ended, and ends what they left behind. */
static void reap(void)
{
	struct rusage used;
	int status;
	pid_t pid;
	while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0)
		for (struct job *j = jobs; j; j = j->next)
			if (pid == j->pid && !j->ended) {
				j->status = status, j->used = used, j->ended = 1;
				/* A pipe held open after the end gets a second of silence. */
				j->until = now() + SECOND;
				kill(-j->pid, SIGKILL);
			}
}

/* settle reports the programs that are over and removes them. */
static void settle(void)
{
	for (struct job **p = &jobs, *j; (j = *p);) {
		uint64_t late = j->until && now() >= j->until;
		if (!j->ended && late)
			kill(-j->pid, SIGKILL), j->until = 0;
		if (!j->ended || (!late && (j->says >= 0 || j->warns >= 0))) {
			p = &j->next;
			continue;
		}
		if (j->says >= 0)
			close(j->says);
		if (j->warns >= 0)
			close(j->warns);
		if (j->talk >= 0)
			close(j->talk);
		const struct rusage *u = &j->used;
		char text[160];
		int len = snprintf(text, sizeof text, "%c%d %d %lld %lld %ld", j->key, WIFEXITED(j->status) ? WEXITSTATUS(j->status) : -1,
			WIFSIGNALED(j->status) ? WTERMSIG(j->status) : 0,
			u->ru_utime.tv_sec * 1000000LL + u->ru_utime.tv_usec, u->ru_stime.tv_sec * 1000000LL + u->ru_stime.tv_usec, u->ru_maxrss);
		frame('Z', text, len);
		*p = j->next;
		free(j->argv);
		free(j->request);
		free(j);
	}
}

/* request takes a request and does what it asks. */
static void request(void)
{
	char head[5];
	take(head, sizeof head);
	uint32_t n = length(head + 1);
	if (head[0] == 'Q')
		end();
	char *b = n <= MOST ? malloc((size_t)n + 1) : NULL;
	if (!b)
		fail("request");
	for (uint32_t at = 0; at < n;) {
		uint32_t part = window && n - at > window ? window : n - at;
		take(b + at, part);
		at += part;
		if (at < n)
			frame('A', NULL, 0);
	}
	switch (head[0]) {
	case 'P': put_file(b, b + n); break;
	case 'S': stop_job(b, b + n); break;
	case 'X':
		if (run_job(b, b, b + n))
			return;
		break;
	default: frame('F', "unknown request", 15);
	}
	free(b);
}

#define MOST_JOBS 64

/* wait_for something to happen: a request, output, or the end of a program. SIGCHLD is
 * blocked except in ppoll, so no end is missed. */
static void wait_for(void)
{
	struct pollfd fds[1 + 2 * MOST_JOBS] = { { in, POLLIN, 0 } };
	struct { struct job *j; int *fd; char tag; } of[1 + 2 * MOST_JOBS];
	nfds_t n = 1;
	uint64_t at = now(), first = 0;
	for (struct job *j = jobs; j; j = j->next) {
		if (j->until && (!first || j->until < first))
			first = j->until;
		for (int i = 0; i < 2; i++) {
			int *fd = i ? &j->warns : &j->says;
			if (*fd < 0 || n == sizeof fds / sizeof *fds)
				continue;
			fds[n] = (struct pollfd){ *fd, POLLIN, 0 };
			of[n].j = j, of[n].fd = fd, of[n].tag = "oe"[i];
			n++;
		}
	}
	uint64_t left = first > at ? first - at : 0;
	struct timespec patience = { left / SECOND, left % SECOND };
	sigset_t none;
	sigemptyset(&none);
	if (ppoll(fds, n, first ? &patience : NULL, &none) < 0)
		return;
	for (nfds_t i = 1; i < n; i++) {
		if (!fds[i].revents)
			continue;
		if (!forward(of[i].j, *of[i].fd, of[i].tag)) {
			close(*of[i].fd);
			*of[i].fd = -1;
		} else if (of[i].j->ended) {
			of[i].j->until = now() + SECOND;
		}
	}
	if (fds[0].revents)
		request();
}

static _Noreturn void serve(void)
{
	for (;;) {
		wait_for();
		reap();
		settle();
	}
}

static int run(int argc, char **argv)
{
	(void)argc;
	folders = argv + 1;
	unsigned long long began = 0;
	if (getpid() == 1) {
		began = now();
		in = out = guest();
		window = SERIAL_WINDOW;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, nothing);
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);

	struct utsname u;
	char hello[sizeof u];
	uname(&u);
	frame('H', hello, snprintf(hello, sizeof hello, "%d %u %s %s %llu %llu", VERSION, window, u.machine, u.release, began, (unsigned long long)now()));
	serve();
}

const struct mode agent_mode = { "agent", "[FOLDER...]", run };
