//go:build ignore

/* ask sends a text to a local socket and prints the answer, which ends when the other side closes. The monitor in a guest is asked with it
 * during a run: starting that program itself again would cost the guest far more. */
#include "micro.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void whole(int to, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t k = write(to, p, n);
		if (k < 0 && errno != EINTR)
			fail("write");
		if (k > 0) {
			p += k;
			n -= (size_t)k;
		}
	}
}

static int run(int argc, char **argv)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	if (argc != 3 || strlen(argv[1]) >= sizeof at.sun_path)
		return usage(&ask_mode);
	strcpy(at.sun_path, argv[1]);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	if (s < 0 || connect(s, (struct sockaddr *)&at, sizeof at))
		fail(argv[1]);
	whole(s, argv[2], strlen(argv[2]));
	char part[4096];
	for (;;) {
		ssize_t k = read(s, part, sizeof part);
		if (k < 0 && errno != EINTR)
			fail("read");
		if (k == 0)
			return 0;
		if (k > 0)
			whole(1, part, (size_t)k);
	}
}

const struct mode ask_mode = { "ask", "SOCKET TEXT", run };
