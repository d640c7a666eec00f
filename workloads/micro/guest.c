//go:build ignore

/* The worker as the first program of a guest, before it becomes an agent. */
#include "guest.h"
#include "micro.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

static void warn(const char *what) { fprintf(stderr, "micro: %s: %s\n", what, strerror(errno)); }

static void mount_at(const char *type, const char *where)
{
	mkdir(where, 0755);
	if (mount(type, where, type, 0, NULL))
		warn(where);
}

/* load inserts the modules that the initramfs brings, in its order. */
static void load(void)
{
	FILE *list = fopen("/modules/list", "re");
	char name[256];
	while (list && fgets(name, sizeof name, list)) {
		name[strcspn(name, "\n")] = 0;
		int fd = open(name, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
			warn(name);
		close(fd);
	}
	if (list)
		fclose(list);
}

static void wait_for_disk(const char *disk)
{
	for (int i = 0; i < 1000 && access(disk, F_OK); i++)
		usleep(10000);
}

/* data makes /data: the file system on the disk named by TEESCOPE_DISK= on
 * the kernel's command line, otherwise memory. */
static void data(void)
{
	const char *disk = getenv("TEESCOPE_DISK"); /* parameters unknown to the kernel become init's environment */
	mkdir("/data", 0755);
	if (!disk) {
		mount_at("tmpfs", "/data");
		return;
	}
	wait_for_disk(disk);
	if (mount(disk, "/data", "ext4", 0, NULL))
		fail(disk);
}

/* address makes an address for an ioctl. */
static void address(void *into, const char *text)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	inet_pton(AF_INET, text, &in.sin_addr);
	memcpy(into, &in, sizeof in);
}

/* network brings the loopback interface up and, where TEESCOPE_NET=ADDRESS/GATEWAY is on
 * the kernel's command line, the first network card, in a net of 256 addresses. */
static void network(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0 || ioctl(s, SIOCSIFFLAGS, &lo))
		warn("lo");
	char *own = getenv("TEESCOPE_NET"), *gateway = own ? strchr(own, '/') : NULL;
	if (!gateway) {
		close(s);
		return;
	}
	*gateway++ = 0;
	struct ifreq card = { .ifr_name = "eth0" };
	for (int i = 0; i < 1000 && ioctl(s, SIOCGIFFLAGS, &card); i++)
		usleep(10000);
	address(&card.ifr_addr, own);
	if (ioctl(s, SIOCSIFADDR, &card))
		fail("the guest's network card eth0");
	address(&card.ifr_netmask, "255.255.255.0");
	if (ioctl(s, SIOCSIFNETMASK, &card))
		fail("the net of eth0");
	card.ifr_flags = IFF_UP | IFF_RUNNING;
	struct rtentry route = { .rt_flags = RTF_UP | RTF_GATEWAY };
	address(&route.rt_dst, "0.0.0.0");
	address(&route.rt_genmask, "0.0.0.0");
	address(&route.rt_gateway, gateway);
	if (ioctl(s, SIOCSIFFLAGS, &card) || ioctl(s, SIOCADDRT, &route))
		fail("the route of eth0");
	close(s);
	unsetenv("TEESCOPE_NET");
}

/* image makes the file system on the disk named by TEESCOPE_ROOT= the root, with the
 * virtual file systems and the job's folders of the initramfs mounted in it. */
static void image(void)
{
	static const char *moved[] = { "/proc", "/sys", "/dev", "/tmp", "/run", "/data" };
	const char *disk = getenv("TEESCOPE_ROOT");
	if (!disk)
		return;
	mkdir("/image", 0755);
	wait_for_disk(disk);
	if (mount(disk, "/image", "ext4", 0, NULL))
		fail(disk);
	char where[64];
	for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
		snprintf(where, sizeof where, "/image%s", moved[i]);
		mkdir(where, 0755);
		if (mount(moved[i], where, NULL, MS_MOVE, NULL))
			fail(where);
	}
	mkdir("/image/work", 0755);
	if (mount("/work", "/image/work", NULL, MS_BIND, NULL) || chroot("/image") || chdir("/"))
		fail("/image");
	unsetenv("TEESCOPE_ROOT");
}

int guest(void)
{
	static const char *mounts[][2] = { { "proc", "/proc" }, { "sysfs", "/sys" }, { "devtmpfs", "/dev" }, { "tmpfs", "/dev/shm" },
		{ "tmpfs", "/tmp" }, { "tmpfs", "/run" }, { "cgroup2", "/sys/fs/cgroup" }, { "debugfs", "/sys/kernel/debug" } };
	for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++)
		mount_at(mounts[i][0], mounts[i][1]);
	load();
	data();
	mkdir("/work", 0755);
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("HOME", "/", 1);
	unsetenv("TEESCOPE_DISK");

	network();
	image();

	int line = open("/dev/ttyS1", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	struct termios raw;
	if (line < 0 || tcgetattr(line, &raw))
		fail("/dev/ttyS1");
	cfmakeraw(&raw);
	raw.c_cflag |= CLOCAL | CREAD;
	cfsetspeed(&raw, B115200);
	if (tcsetattr(line, TCSANOW, &raw) || fcntl(line, F_SETFL, 0))
		fail("/dev/ttyS1");
	return line;
}
