package launchers

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
)

// An image is the root file system of an environment, the same for every launcher that
// takes one: the name of an OCI image in podman's store, or a path (which begins with / or
// a dot) of a folder or of a file with an ext4 file system.

// imageParam returns the parameter of that name; without describes the environment without an
// image.
func imageParam(without string) bench.Param {
	return bench.Param{Name: "image", Path: true, Named: true, Doc: "Root file system: the name of an OCI image in podman's store, or the path of a folder or of a file with an ext4 file system. Empty: " + without + "."}
}

// isPath distinguishes the path of an image from the name of one in a store.
func isPath(image string) bool { return bench.IsPath(image) }

// imageNeeds lists the tools for using an image.
func imageNeeds(h *host.Host, image string) []need {
	if isPath(image) {
		needs := []need{{Path: image, Hint: "the folder or ext4 file that image names"}}
		if fi, err := h.Stat(image); err == nil && !fi.IsDir() {
			needs = append(needs, need{Command: "debugfs", Hint: "package e2fsprogs"})
		}
		return needs
	}
	return []need{{Command: "podman", Hint: podmanHint}, {Command: "tar", Hint: "package tar"}}
}

// pseudo are the types of file systems whose files the kernel makes up as they are read. A copy of them ends late or
// never, and an environment mounts its own.
var pseudo = []string{"binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue",
	"nfsd", "nsfs", "proc", "pstore", "resctrl", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs"}

// refuseImage says why a folder cannot be packed. What else an image lacks is found by imageNeeds and checkImage.
func refuseImage(h *host.Host, image string) error {
	if !isPath(image) {
		return nil
	}
	const advice = "name a folder that has only files, such as an unpacked podman export"
	folder, err := filepath.EvalSymlinks(h.Path(image))
	if err != nil {
		return nil
	}
	folder = path.Join("/", strings.TrimPrefix(folder, h.Root))
	if folder == "/" {
		return fmt.Errorf("pack image %s: this is the machine's root folder, with /proc and /sys: %s", image, advice)
	}
	const file = "/proc/self/mountinfo"
	b, err := h.ReadFile(file)
	if err != nil {
		return nil
	}
	mounts, _ := machine.ParseMounts(file, b) // lines that are none are left out
	in := machine.Mount{}
	for _, m := range mounts {
		if isInside(folder, m.Point) && len(m.Point) >= len(in.Point) { // of two at one place, the later one is on top
			in = m
		}
	}
	for _, m := range append(mounts, in) {
		if slices.Contains(pseudo, m.Type) && (isInside(m.Point, folder) || m == in) {
			return fmt.Errorf("pack image %s: the kernel's file system %s is mounted at %s: unmount it, or %s", image, m.Type, m.Point, advice)
		}
	}
	return nil
}

// isInside reports whether a clean path is a folder or below it.
func isInside(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/")
}

// isExt4 reports whether a file holds an ext2, ext3 or ext4 file system, by the magic number in
// the superblock (Documentation/filesystems/ext4/super.rst).
func isExt4(h *host.Host, name string) (bool, error) {
	const at = 1024 + 0x38
	b, err := h.ReadFrom(name, at, 2)
	return err == nil && len(b) == 2 && b[0] == 0x53 && b[1] == 0xef, err
}

// checkImage returns a one-line error if an image is unusable.
func checkImage(ctx context.Context, h *host.Host, image string) error {
	if !isPath(image) {
		if out, err := h.Exec(ctx, host.Cmd{Argv: []string{"podman", "image", "exists", image}}); err != nil {
			return fmt.Errorf("image %s is not in podman's store%s: fetch it with podman pull, or name a folder or an ext4 file by its path", image, lastWords(out))
		}
		return nil
	}
	fi, err := h.Stat(image)
	if err != nil || fi.IsDir() {
		return err
	}
	if ok, err := isExt4(h, image); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("image %s is neither a folder nor a file with an ext4 file system", image))
	}
	return nil
}

// imageFolder returns the folder of an image. It unpacks the image to into, unless the image is
// itself a folder.
func imageFolder(ctx context.Context, h *host.Host, image, into string) (folder string, err error) {
	if err := checkImage(ctx, h, image); err != nil {
		return "", err
	}
	if isPath(image) {
		if fi, err := h.Stat(image); err != nil || fi.IsDir() {
			return image, err
		}
	}
	if err := h.Mkdir(into); err != nil {
		return "", err
	}
	if isPath(image) {
		// debugfs prints errors but always exits with status 0.
		out, err := h.Exec(ctx, host.Cmd{Argv: []string{"debugfs", "-R", "rdump / " + requestWord(h.Path(into)), image}})
		if err != nil {
			return "", fmt.Errorf("read image %s: %w%s", image, err, lastWords(out))
		}
		return into, nil
	}
	return into, unpack(ctx, h, image, into)
}

// requestWord is one word of a request to debugfs, which splits at blanks outside of double quotes, and in them reads two as one.
func requestWord(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// unpack exports an image of podman's store.
func unpack(ctx context.Context, h *host.Host, image, into string) error {
	run := func(argv ...string) (string, error) {
		out, err := h.Exec(ctx, host.Cmd{Argv: argv})
		if err != nil {
			return "", fmt.Errorf("unpack image %s: %w%s", image, err, lastWords(out))
		}
		return strings.TrimSpace(string(out.Stdout)), nil
	}
	// The command is never run; an image need not have one of its own.
	id, err := run("podman", "create", "--pull", "never", "--network", "none", image, "none")
	if err != nil {
		return err
	}
	file := into + ".tar"
	_, err = run("podman", "export", "--output", h.Path(file), id)
	if _, rerr := h.Exec(context.WithoutCancel(ctx), host.Cmd{Argv: []string{"podman", "rm", "--force", id}}); err == nil {
		err = rerr
	}
	if err == nil {
		_, err = run("tar", "-x", "-p", "-f", h.Path(file), "-C", h.Path(into))
	}
	return errors.Join(err, h.RemoveAll(file))
}

// imageDigest identifies what an image holds.
func imageDigest(ctx context.Context, h *host.Host, image string) (string, error) {
	argv := []string{"podman", "image", "inspect", "--format", "{{.Id}}", image}
	if isPath(image) {
		argv = []string{"sha256sum", image}
		if fi, err := h.Stat(image); err == nil && fi.IsDir() {
			argv = []string{"sh", "-c", `tar -c --sort=name --numeric-owner -C "$1" . | sha256sum`, "sh", image}
		}
	}
	out, err := h.Exec(ctx, host.Cmd{Argv: argv})
	if err != nil {
		return "", fmt.Errorf("identify image %s: %w%s", image, err, lastWords(out))
	}
	sum, _, _ := strings.Cut(strings.TrimSpace(string(out.Stdout)), " ")
	return "sha256:" + strings.TrimPrefix(sum, "sha256:"), nil
}

// rootSlack is the free space of a root file system, in bytes, beyond the image's content.
const rootSlack = 256 << 20

// rootDisk returns the command that makes a file system of a folder; size is in KiB, with
// mkfs.ext4's unit.
func rootDisk(folder, disk, size string) host.Cmd {
	return host.Cmd{Argv: []string{"mkfs.ext4", "-q", "-F", "-d", folder, disk, size}}
}

// makeRoot returns a disk with the image's root file system: the image itself, or the file disk,
// next to which it may leave other files.
func makeRoot(ctx context.Context, h *host.Host, image, disk string) (root, digest string, err error) {
	if err := checkImage(ctx, h, image); err != nil {
		return "", "", err
	}
	if digest, err = imageDigest(ctx, h, image); err != nil {
		return "", "", err
	}
	if isPath(image) {
		if fi, err := h.Stat(image); err == nil && !fi.IsDir() {
			return image, digest, nil
		}
	}
	folder, err := imageFolder(ctx, h, image, path.Join(path.Dir(disk), "image"))
	if err != nil {
		return "", "", err
	}
	out, err := h.Exec(ctx, host.Cmd{Argv: []string{"du", "-sk", h.Path(folder)}})
	if err != nil {
		return "", "", fmt.Errorf("measure image %s: %w%s", image, err, lastWords(out))
	}
	used, _, _ := strings.Cut(string(out.Stdout), "\t")
	kib, err := strconv.ParseInt(used, 10, 64)
	if err != nil {
		return "", "", fmt.Errorf("measure image %s: du printed %q, want a size", image, out.Stdout)
	}
	if out, err = h.Exec(ctx, rootDisk(h.Path(folder), h.Path(disk), strconv.FormatInt(kib+kib/4+rootSlack>>10, 10)+"k")); err != nil {
		return "", "", fmt.Errorf("make a disk of image %s: %w%s", image, err, lastWords(out))
	}
	return disk, digest, nil
}
