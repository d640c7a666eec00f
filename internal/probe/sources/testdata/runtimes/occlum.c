/* Stands for libocclum-pal.so. */
__attribute__((noinline)) int occlum_pal_init(void *attr) { return 0; }
