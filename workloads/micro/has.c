//go:build ignore

/* has prints those of some programs that are not here, looked up as execvp(3) does. */
#include "micro.h"

#include <unistd.h>

static int found(const char *name)
{
	if (strchr(name, '/'))
		return !access(name, X_OK);
	const char *path = getenv("PATH");
	char file[4096];
	for (path = path ? path : "/bin:/usr/bin"; *path; path += *path == ':') {
		int n = (int)strcspn(path, ":");
		snprintf(file, sizeof file, "%.*s/%s", n, path, name);
		if (!access(file, X_OK))
			return 1;
		path += n;
	}
	return 0;
}

static int run(int argc, char **argv)
{
	int missing = 0;
	for (int i = 1; i < argc; i++)
		if (!found(argv[i])) {
			say("%s", argv[i]);
			missing = 1;
		}
	return missing;
}

const struct mode has_mode = { "has", "PROGRAM...", run };
