//go:build ignore

/* ports prints TCP ports of an address that are free. */
#include "micro.h"

#include <arpa/inet.h>
#include <sys/socket.h>

static int run(int argc, char **argv)
{
	if (argc != 3)
		return usage(&ports_mode);
	/* All are held until the end, so they differ. */
	for (uint64_t n = number(argv[2], 1); n > 0; n--) {
		struct sockaddr_in in = { .sin_family = AF_INET };
		socklen_t size = sizeof in;
		int s = socket(AF_INET, SOCK_STREAM, 0);
		if (inet_pton(AF_INET, argv[1], &in.sin_addr) != 1 || s < 0 || bind(s, (struct sockaddr *)&in, sizeof in) || getsockname(s, (struct sockaddr *)&in, &size))
			fail(argv[1]);
		say("%d", ntohs(in.sin_port));
	}
	return 0;
}

const struct mode ports_mode = { "ports", "ADDRESS NUMBER", run };
