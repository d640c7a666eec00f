#!/bin/sh
# Builds the guests: NAME.elf of NAME.c, with Debian 12's clang and lld, because other versions make other programs, with other counts of cycles.
set -eu
cd "$(dirname "$0")"
for source in *.c; do
	name=${source%.c}
	clang --target=riscv32-unknown-none-elf -march=rv32im -mabi=ilp32 -mno-relax -std=c11 -O2 -ffreestanding -fno-pic -fno-ident \
		-ffunction-sections -Wall -Wextra -Werror -c -o "$name.o" "$source"
	ld.lld -T guest.ld --nmagic --gc-sections --strip-all --build-id=none -o "$name.elf" "$name.o"
	rm "$name.o"
done
