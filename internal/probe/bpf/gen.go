package bpf

// The objects are built for every little-endian machine: what differs between
// machines is looked up when they are loaded.
//
//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf syscalls syscalls.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3
//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf switches switches.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3
//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf faults faults.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3
//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf pageCache pagecache.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3
//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf empty empty.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3
//go:generate go run gennames.go
