package launchers

import (
	"bytes"
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

// guest is the tree of a virtual machine that has no disk to boot from: the
// worker, a job's files, the programs of this machine that it calls with their
// libraries, and kernel modules. Keys are paths there, with links followed.
type guest map[string]guestFile

type guestFile struct {
	mode fs.FileMode
	data []byte
}

// archive is the tree as the kernel unpacks it (cpio, "newc"; the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst). Equal trees
// give equal bytes.
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

// addProgram adds what a program needs to start, and itself if it is not
// there yet: a script's interpreter, a dynamic program's linker and libraries. What it loads
// by name while it runs (dlopen) is not seen.
func (g guest) addProgram(h *host.Host, name string) error {
	f, ok := g[name]
	if !ok {
		data, err := h.ReadFile(name)
		if err != nil {
			return fmt.Errorf("take %s into the guest: %w", name, err)
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

// libraryFolders is where the dynamic linker looks besides what a program
// says: its own defaults, Debian's first, and what /etc/ld.so.conf commonly names.
var libraryFolders = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
	"/usr/local/lib/x86_64-linux-gnu", "/usr/local/lib64", "/usr/local/lib",
}

// addLibraries adds the dynamic linker and the libraries of an ELF file,
// and theirs; a file of another kind has none.
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
			return fmt.Errorf("take %s into the guest: its library %s is in none of %s", name, lib, strings.Join(folders, ", "))
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
		return fmt.Errorf("take %s into the guest: %w", name, err)
	}
	g[name] = guestFile{0o755, data}
	return g.addLibraries(h, name, data)
}

// modulesOf is where the modules of a kernel image lie: /boot/vmlinuz-6.1 has
// them in /lib/modules/6.1, and an unpacked package below its own folder.
func modulesOf(kernel string) (folder string, err error) {
	release, ok := strings.CutPrefix(path.Base(kernel), "vmlinuz-")
	if !ok {
		return "", fmt.Errorf("kernel %s: want a name like vmlinuz-RELEASE: the release says where its modules are", kernel)
	}
	return path.Join(path.Dir(path.Dir(kernel)), "lib/modules", release), nil
}

// addModules adds modules with those they depend on, and the list in whose
// order the guest loads them. What is built into the kernel is left out.
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
		file := ""
		// Modules that block and virtio devices need lie this deep.
		for _, pattern := range []string{"kernel/*/*/", "kernel/*/"} {
			found, err := h.Glob(path.Join(folder, pattern, name+".ko"))
			if err == nil && len(found) > 0 {
				file = found[0]
			}
		}
		if file == "" {
			return fmt.Errorf("find the kernel's module %s: no %s.ko below %s (a compressed one cannot be used)", name, name, folder)
		}
		data, err := h.ReadFile(file)
		if err != nil {
			return err
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

// depends reads what a module depends on from its .modinfo section, which is
// there before depmod has been run.
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
