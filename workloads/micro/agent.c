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
 *   X run a program   a argument..., e NAME=VALUE..., d folder, i standard input,
 *                     r ready line, q what to answer it with
 *   Q end             power off, or remove the folders
 *
 * It says
 *
 *   H hello           "VERSION WINDOW MACHINE RELEASE"
 *   A go on           after each WINDOW bytes of a request that is longer than
 *                     that: a serial line has no flow control (0: not needed)
 *   K done            a file is there, a program was started
 *   F refused         the reason
 *   o, e              bytes of the program's standard output and error, as they come
 *   Z ended           "STATUS SIGNAL USER SYSTEM MAXRSS": microseconds and KiB of
 *                     wait4(2); SIGNAL is 0, or what ended it
 *
 * While a program runs nothing is asked; an input that ends then ends the
 * program's process group. */
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

#define VERSION 1
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

static _Noreturn void end(void)
{
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

struct job {
	char **argv, *folder, *ready;
	char *input, *answer;
	size_t input_n, answer_n, at;
	int differs; /* the line in progress is not the ready line */
	pid_t pid;
	int talk, says, warns; /* its standard input (-1: closed), output and error */
};

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
	static char b[65536];
	ssize_t r = read(fd, b, sizeof b);
	if (r < 0)
		return errno == EINTR || errno == EAGAIN;
	if (r == 0)
		return 0;
	frame(tag, b, r);
	if (tag == 'o')
		answer(j, b, r);
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

/* stop_and_end ends the program's group: SIGTERM, three seconds, SIGKILL. */
static _Noreturn void stop_and_end(pid_t pid)
{
	kill(-pid, SIGTERM);
	for (int i = 0; i < 300 && waitpid(pid, NULL, WNOHANG) == 0; i++)
		usleep(10000);
	kill(-pid, SIGKILL);
	end();
}

static void run_job(char *at, char *stop)
{
	struct job j = { 0 };
	char *value, *first = at, tag;
	size_t n, args = 0;
	j.argv = calloc((stop - at) / 6 + 1, sizeof *j.argv);
	if (!j.argv)
		fail("allocate");
	while ((tag = field(&at, stop, &value, &n)))
		switch (tag) {
		case 'a': j.argv[args++] = value; break;
		case 'd': j.folder = value; break;
		case 'i': j.input = value, j.input_n = n; break;
		case 'r': j.ready = value; break;
		case 'q': j.answer = value, j.answer_n = n; break;
		}
	errno = EINVAL;
	if (!args)
		refuse("no program");
	if (!args || !started(&j, first, stop)) {
		free(j.argv);
		return;
	}
	frame('K', NULL, 0);

	/* SIGCHLD is blocked except in ppoll, so no end is missed. */
	sigset_t none;
	sigemptyset(&none);
	int status = 0, ended = 0;
	struct rusage ru = { 0 };
	struct pollfd fds[3] = { { j.says, POLLIN, 0 }, { j.warns, POLLIN, 0 }, { in, POLLIN, 0 } };
	for (;;) {
		struct rusage one;
		int s;
		pid_t pid;
		while (!ended && (pid = wait4(-1, &s, WNOHANG, &one)) > 0)
			if (pid == j.pid) {
				status = s, ru = one, ended = 1;
				kill(-j.pid, SIGKILL); /* what it left behind */
			}
		if (ended && fds[0].fd < 0 && fds[1].fd < 0)
			break;
		/* A pipe held open after the end gets a second of silence. */
		struct timespec patience = { .tv_sec = 1 };
		int ready = ppoll(fds, 3, ended ? &patience : NULL, &none);
		if (ready < 0)
			continue;
		if (ready == 0)
			break;
		for (int i = 0; i < 2; i++)
			if (fds[i].revents && !forward(&j, fds[i].fd, "oe"[i]))
				fds[i].fd = -1;
		if (fds[2].revents)
			stop_and_end(j.pid);
	}
	close(j.says), close(j.warns);
	if (j.talk >= 0)
		close(j.talk);
	char text[160];
	int len = snprintf(text, sizeof text, "%d %d %lld %lld %ld", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
		WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		ru.ru_utime.tv_sec * 1000000LL + ru.ru_utime.tv_usec, ru.ru_stime.tv_sec * 1000000LL + ru.ru_stime.tv_usec, ru.ru_maxrss);
	frame('Z', text, len);
	free(j.argv);
}

static int run(int argc, char **argv)
{
	(void)argc;
	folders = argv + 1;
	if (getpid() == 1) {
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
	frame('H', hello, snprintf(hello, sizeof hello, "%d %u %s %s", VERSION, window, u.machine, u.release));
	for (;;) {
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
		if (head[0] == 'P')
			put_file(b, b + n);
		else if (head[0] == 'X')
			run_job(b, b + n);
		else
			frame('F', "unknown request", 15);
		free(b);
	}
}

const struct mode agent_mode = { "agent", "[FOLDER...]", run };
