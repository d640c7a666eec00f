package launchers

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// guest is the file tree of a virtual machine that boots without a disk: the worker, a job's
// files, the programs of this machine that it calls with their libraries, and kernel modules.
// Keys are paths in the guest, with links followed.
type guest map[string]guestFile

type guestFile struct {
	mode fs.FileMode
	data []byte
}

// archive returns the tree in the format that the kernel unpacks (cpio, "newc"; the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst). Equal trees give equal bytes.
func (g guest) archive() []byte {
	var b bytes.Buffer
	inode := 0
	entry := func(name string, mode uint32, data []byte) {
		inode++
		fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
			inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
		align(&b)
		b.Write(data)
		align(&b)
	}
	made := map[string]bool{}
	var folder func(string)
	folder = func(name string) {
		if name == "/" || made[name] {
			return
		}
		folder(path.Dir(name))
		made[name] = true
		entry(name[1:], 0o040755, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(g)) {
		folder(path.Dir(name))
		entry(name[1:], 0o100000|uint32(g[name].mode.Perm()), g[name].data)
	}
	entry("TRAILER!!!", 0, nil)
	return b.Bytes()
}

func align(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}

// addProgram adds a program, unless it is there, with what it needs to start: a script's
// interpreter, a dynamic program's linker and libraries. It does not see what the program loads
// by name while it runs (dlopen).
func (g guest) addProgram(h *host.Host, name string) error {
	f, ok := g[name]
	if !ok {
		data, err := h.ReadFile(name)
		if err != nil {
			return fmt.Errorf("copy %s into the guest: %w", name, err)
		}
		f = guestFile{0o755, data}
		g[name] = f
	}
	if line, ok := bytes.CutPrefix(f.data, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		if words := strings.Fields(string(line)); len(words) > 0 {
			if _, have := g[words[0]]; !have {
				return g.addProgram(h, words[0])
			}
		}
		return nil
	}
	return g.addLibraries(h, name, f.data)
}

// accounts are the users that programs look up.
var accounts = guest{
	"/etc/passwd": {0o644, []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")},
	"/etc/group":  {0o644, []byte("root:x:0:\nnogroup:x:65534:\n")},
	"/etc/hosts":  {0o644, []byte("127.0.0.1 localhost\n")},
}

// addAll adds what a pattern of Job.Programs names: a program by its name in PATH, or the files
// and folders that match a pattern of paths. It ignores what does not exist; the job then
// reports it.
func (g guest) addAll(h *host.Host, pattern string) error {
	if !strings.Contains(pattern, "/") {
		name, err := h.LookPath(pattern)
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		return g.addProgram(h, name)
	}
	found, err := host.Chosen.Find(context.Background(), h, pattern)
	if err != nil {
		return err
	}
	for _, name := range found[0] {
		if err := g.addTree(h, name); err != nil {
			return err
		}
	}
	return nil
}

// addTree adds a file, or a folder with its contents, and what its programs and libraries need.
func (g guest) addTree(h *host.Host, name string) error {
	fi, err := h.Stat(name)
	if err != nil {
		return nil //nolint:nilerr // a link that leads nowhere
	}
	if fi.IsDir() {
		entries, err := h.ReadDir(name)
		if err != nil {
			return fmt.Errorf("copy %s into the guest: %w", name, err)
		}
		for _, e := range entries {
			if err := g.addTree(h, path.Join(name, e.Name())); err != nil {
				return err
			}
		}
		return nil
	}
	if _, have := g[name]; have || !fi.Mode().IsRegular() {
		return nil
	}
	data, err := h.ReadFile(name)
	if err != nil {
		return fmt.Errorf("copy %s into the guest: %w", name, err)
	}
	g[name] = guestFile{fi.Mode().Perm(), data}
	if fi.Mode().Perm()&0o111 == 0 && !strings.Contains(path.Base(name), ".so") {
		return nil
	}
	return g.addProgram(h, name)
}

// libraryFolders are the folders that the dynamic linker searches besides those that a program
// names: its own defaults, Debian's first, and those that /etc/ld.so.conf commonly names.
var libraryFolders = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
	"/usr/local/lib/x86_64-linux-gnu", "/usr/local/lib64", "/usr/local/lib",
}

// addLibraries adds the dynamic linker and the libraries of an ELF file, and theirs; a file of
// another kind has none.
func (g guest) addLibraries(h *host.Host, name string, data []byte) error {
	f, err := elf.NewFile(bytes.NewReader(data))
	var format *elf.FormatError
	if errors.As(err, &format) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			linker := make([]byte, p.Filesz)
			if _, err := p.ReadAt(linker, 0); err != nil {
				return fmt.Errorf("read the dynamic linker's name in %s: %w", name, err)
			}
			if err := g.addLibrary(h, strings.TrimRight(string(linker), "\x00")); err != nil {
				return err
			}
			// The linker finds libraries in unusual folders through its cache.
			if cache, err := h.ReadFile("/etc/ld.so.cache"); err == nil {
				g["/etc/ld.so.cache"] = guestFile{0o644, cache}
			}
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return nil // no dynamic section: a static program
	}
	var folders []string
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		values, _ := f.DynString(tag)
		for _, v := range values {
			folders = append(folders, strings.Split(strings.ReplaceAll(v, "$ORIGIN", path.Dir(name)), ":")...)
		}
	}
	folders = append(folders, libraryFolders...)
	for _, lib := range libraries {
		at := slices.IndexFunc(folders, func(dir string) bool {
			fi, err := h.Stat(path.Join("/", dir, lib))
			return err == nil && fi.Mode().IsRegular()
		})
		if at < 0 {
			return fmt.Errorf("copy %s into the guest: the library %s, which the program needs, is in none of these folders: %s", name, lib, strings.Join(folders, ", "))
		}
		if err := g.addLibrary(h, path.Join("/", folders[at], lib)); err != nil {
			return err
		}
	}
	return nil
}

func (g guest) addLibrary(h *host.Host, name string) error {
	if _, have := g[name]; have {
		return nil
	}
	data, err := h.ReadFile(name)
	if err != nil {
		return fmt.Errorf("copy %s into the guest: %w", name, err)
	}
	g[name] = guestFile{0o755, data}
	return g.addLibraries(h, name, data)
}

// modulesOf returns the folder with the modules of a kernel image: /lib/modules/6.1 for
// /boot/vmlinuz-6.1; for an unpacked package, a folder below its own.
func modulesOf(kernel string) (folder string, err error) {
	release, ok := strings.CutPrefix(path.Base(kernel), "vmlinuz-")
	if !ok {
		return "", fmt.Errorf("kernel %s: want a name like vmlinuz-RELEASE, because the release gives the folder of its modules", kernel)
	}
	return path.Join(path.Dir(path.Dir(kernel)), "lib/modules", release), nil
}

// addModules adds modules and those they depend on, and the list in whose order the guest loads
// them. It leaves out what is built into the kernel.
func (g guest) addModules(h *host.Host, folder string, names ...string) error {
	builtin, err := h.ReadString(path.Join(folder, "modules.builtin"))
	if err != nil {
		return fmt.Errorf("find the kernel's modules: %w; unpack the kernel's whole package next to the image", err)
	}
	var list strings.Builder
	done := map[string]bool{}
	var add func(string) error
	add = func(name string) error {
		if done[name] || strings.Contains(builtin, "/"+name+".ko") {
			return nil
		}
		done[name] = true
		const deepest = 6 // folders below kernel: drivers/net/ethernet/VENDOR/NAME are 5
		file := ""
		for depth := 1; file == "" && depth <= deepest; depth++ {
			found, err := h.Glob(path.Join(host.Literal(folder), "kernel", strings.Repeat("*/", depth), name+".ko*"))
			if err == nil && len(found) > 0 {
				file = found[0]
			}
		}
		if file == "" {
			return fmt.Errorf("find the kernel's module %s: no %s.ko below %s, compressed or not", name, name, folder)
		}
		data, err := module(h, file)
		if err != nil {
			return fmt.Errorf("read the kernel's module %s: %w", file, err)
		}
		for _, dep := range depends(data) {
			if err := add(dep); err != nil {
				return err
			}
		}
		inside := "/modules/" + name + ".ko"
		g[inside] = guestFile{0o644, data}
		fmt.Fprintln(&list, inside)
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return err
		}
	}
	g["/modules/list"] = guestFile{0o644, []byte(list.String())}
	return nil
}

// expanders are the commands that write what is in a compressed file, by the end of its name (CONFIG_MODULE_COMPRESS).
var expanders = map[string]string{".xz": "xz", ".zst": "zstd", ".gz": "gzip"}

// module reads a module, which may be compressed.
func module(h *host.Host, file string) ([]byte, error) {
	data, err := h.ReadFile(file)
	command, compressed := expanders[path.Ext(file)]
	if err != nil || !compressed {
		return data, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	out, err := h.Exec(ctx, host.Cmd{Argv: []string{command, "-dc"}, Stdin: data, Most: 256 << 20})
	if err != nil {
		return nil, fmt.Errorf("expand it: %w%s", err, lastWords(out))
	}
	return out.Stdout, nil
}

// depends reads a module's dependencies from its .modinfo section, which exists before depmod
// has run.
func depends(module []byte) []string {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil
	}
	info, err := s.Data()
	if err != nil {
		return nil
	}
	for line := range strings.SplitSeq(string(info), "\x00") {
		if v, ok := strings.CutPrefix(line, "depends="); ok {
			return strings.FieldsFunc(v, func(r rune) bool { return r == ',' })
		}
	}
	return nil
}
