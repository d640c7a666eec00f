#ifndef GUEST_H
#define GUEST_H

/* guest prepares a bare kernel for jobs: virtual file systems, the modules
 * in the initramfs, /data, the network, the root of an image. It returns the second
 * serial port, which passes all bytes unchanged, or ends. */
int guest(void);

#endif
