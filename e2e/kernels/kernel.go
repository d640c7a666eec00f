package kernels

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Kernel is a fetched and unpacked image.
type Kernel struct {
	Image
	// Uname is the release that uname(1) prints.
	Uname string
	dir   string
}

// modules are those that steps load, and their dependencies.
var modules = []string{
	"virtio", "virtio_ring", "virtio_pci", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_blk", "loop", "ext4",
	"virtio_net", "net_failover", "failover", "irqbypass", "ccp", "kvm", "kvm-amd",
	"jbd2", "mbcache", "crc16", "crc32c_generic", "crc32c-intel", "libcrc32c", "crypto", "cbc",
}

// Fetch returns a kernel from the cache, or from the archive the first time.
func (a *Archive) Fetch(ctx context.Context, im Image) (*Kernel, error) {
	dir := filepath.Join(a.Dir, im.Package)
	k := &Kernel{Image: im, dir: dir}
	if name, err := os.ReadFile(filepath.Join(dir, "uname")); err == nil {
		k.Uname = string(name)
		return k, nil
	}
	parts, err := a.parts(ctx, im)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoKernels, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	debs, err := a.download(ctx, parts...)
	if err != nil {
		return nil, err
	}
	for _, deb := range debs {
		err := k.unpack(ctx, deb)
		if err := errors.Join(err, os.Remove(deb)); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
		}
	}
	if k.Uname == "" {
		return nil, fmt.Errorf("unpack %s: no kernel in %s", im.Package, strings.Join(parts, ", "))
	}
	return k, os.WriteFile(filepath.Join(dir, "uname"), []byte(k.Uname), 0o644)
}

// unpack extracts the kernel and the needed modules of a package.
func (k *Kernel) unpack(ctx context.Context, deb string) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = k.unpackTar(out)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	if end := cmd.Wait(); end != nil {
		err = errors.Join(err, fmt.Errorf("run dpkg-deb: %w: %s", end, bytes.TrimSpace(said.Bytes())))
	}
	return err
}

func (k *Kernel) unpackTar(r io.Reader) error {
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		base := path.Base(h.Name)
		module, compressed := strings.CutSuffix(base, ".xz")
		module, isModule := strings.CutSuffix(module, ".ko")
		switch {
		case h.Typeflag != tar.TypeReg:
		case strings.HasPrefix(base, "vmlinuz"):
			// boot/vmlinuz-UNAME, or lib/modules/UNAME/vmlinuz since 7.2.
			if k.Uname = strings.TrimPrefix(base, "vmlinuz-"); k.Uname == base {
				k.Uname = path.Base(path.Dir(h.Name))
			}
			b, err := io.ReadAll(in)
			if err != nil {
				return err
			}
			if b, err = vmlinux(b); err != nil {
				return fmt.Errorf("%s: %w", base, err)
			}
			if err := os.WriteFile(filepath.Join(k.dir, "vmlinux"), b, 0o644); err != nil {
				return err
			}
		case isModule && slices.Contains(modules, module):
			b, err := io.ReadAll(in)
			if err == nil && compressed {
				b, err = decompress(b)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(k.dir, module+".ko"), b, 0o644)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", base, err)
			}
		}
	}
}

// compressions maps the formats of kernels and modules to the commands that unpack them. In a
// bzImage a 4-byte size follows the payload; the commands complain about it after unpacking.
var compressions = []struct{ magic, command string }{
	{"\xfd7zXZ\x00", "xz"},
	{"\x28\xb5\x2f\xfd", "zstd"},
	{"\x02\x21\x4c\x18", "lz4"},
}

func decompress(b []byte) ([]byte, error) {
	for _, c := range compressions {
		if !bytes.HasPrefix(b, []byte(c.magic)) {
			continue
		}
		cmd := exec.Command(c.command, "-dc")
		cmd.Stdin = bytes.NewReader(b)
		out, err := cmd.Output()
		if err != nil && len(out) == 0 {
			return nil, fmt.Errorf("%s: %w", c.command, err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("starts with % x: unknown compression", b[:min(len(b), 4)])
}

// vmlinux extracts the ELF image from a bzImage. QEMU starts it directly, without decompression
// under emulation, and tests can change its sections.
// The header is described in Documentation/arch/x86/boot.rst.
func vmlinux(b []byte) ([]byte, error) {
	if len(b) < 0x250 || string(b[0x202:0x206]) != "HdrS" {
		return nil, errors.New("no bzImage")
	}
	setup := int(b[0x1f1])
	if setup == 0 {
		setup = 4
	}
	from := (setup+1)*512 + int(binary.LittleEndian.Uint32(b[0x248:]))
	to := from + int(binary.LittleEndian.Uint32(b[0x24c:]))
	if from < 0 || to > len(b) || from+6 > to {
		return nil, errors.New("no payload in the bzImage")
	}
	return decompress(b[from:to])
}

// ELF returns the file of the kernel's image. Without BTF the section is filled with zeros: it
// cannot be removed, since the kernel's code has its address and size. The kernel then refuses
// what needs its types, and the guest hides the file.
func (k *Kernel) ELF(withBTF bool) (string, error) {
	file := filepath.Join(k.dir, "vmlinux")
	if withBTF {
		return file, nil
	}
	bare := filepath.Join(k.dir, "vmlinux-nobtf")
	if _, err := os.Stat(bare); err == nil {
		return bare, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	e, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return "", fmt.Errorf("%s: %w", k.Package, err)
	}
	s := e.Section(".BTF")
	if s == nil {
		return "", fmt.Errorf("%s has no section .BTF", k.Package)
	}
	clear(b[s.Offset : s.Offset+s.FileSize])
	return bare, os.WriteFile(bare, b, 0o644)
}

// Modules returns the files of the named modules and of their dependencies, in load order.
// Built-in modules have no file.
func (k *Kernel) Modules(names ...string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		file := filepath.Join(k.dir, name+".ko")
		needs, err := moduleNeeds(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, n := range needs {
			if err := add(n); err != nil {
				return err
			}
		}
		files = append(files, file)
		return nil
	}
	for _, n := range names {
		if err := add(n); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// moduleNeeds reads "depends=" of a module's section .modinfo.
func moduleNeeds(file string) ([]string, error) {
	e, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	s := e.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("%s: no section .modinfo", file)
	}
	b, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for field := range strings.SplitSeq(string(b), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
