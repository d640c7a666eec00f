package kernels

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Module builds a kernel module from a folder against the kernel's headers and returns the file.
// It fetches the headers the first time. It needs make, gcc, and pahole for type information.
func (a *Archive) Module(ctx context.Context, k *Kernel, source, to string) (string, error) {
	headers, err := a.headers(ctx, k)
	if err != nil {
		return "", err
	}
	build := filepath.Join(to, filepath.Base(source))
	if err := os.CopyFS(build, os.DirFS(source)); err != nil {
		return "", err
	}
	// The Makefile in Debian's headers includes the common one by an absolute path.
	makefile := filepath.Join(headers, "Makefile")
	text, err := os.ReadFile(makefile)
	if err != nil {
		return "", err
	}
	common := filepath.Join(filepath.Dir(headers), "linux-headers-"+commonRelease(k.Uname)+"-common", "Makefile")
	if !strings.Contains(string(text), common) {
		if err := os.WriteFile(makefile, []byte("include "+common+"\n"), 0o644); err != nil {
			return "", err
		}
	}
	// Before 6.12 the headers have no types; take them from the kernel's image.
	image := filepath.Join(headers, "vmlinux")
	if _, err := os.Stat(image); errors.Is(err, os.ErrNotExist) {
		if err := os.Symlink(filepath.Join(k.dir, "vmlinux"), image); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, "make", "KDIR="+headers)
	cmd.Dir = build
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s for %s: %w\n%s", source, k.Uname, err, tail(string(out)))
	}
	files, err := filepath.Glob(filepath.Join(build, "*.ko"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("build %s for %s: made %v, %w", source, k.Uname, files, err)
	}
	return files[0], nil
}

// commonRelease returns the release without architecture and flavour.
func commonRelease(uname string) string {
	for _, flavour := range []string{"-amd64", "-cloud", "-rt"} {
		uname = strings.TrimSuffix(uname, flavour)
	}
	return uname
}

// headers unpacks what builds a module for a kernel, and returns the folder for KDIR.
func (a *Archive) headers(ctx context.Context, k *Kernel) (string, error) {
	root := filepath.Join(k.dir, "headers")
	dir := filepath.Join(root, "usr/src/linux-headers-"+k.Uname)
	done := filepath.Join(root, "done")
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	release := commonRelease(k.Uname)
	kbuild := "linux-kbuild-" + release
	if k.Series.Before(Version{6, 12}) {
		kbuild = "linux-kbuild-" + k.Series.String()
	}
	debs, err := a.download(ctx, "linux-headers-"+k.Uname, "linux-headers-"+release+"-common", kbuild)
	if err != nil {
		return "", err
	}
	for _, deb := range debs {
		out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb, root).CombinedOutput()
		if err := errors.Join(err, os.Remove(deb)); err != nil {
			return "", fmt.Errorf("unpack %s: %w: %s", filepath.Base(deb), err, out)
		}
	}
	// Before 6.12 the headers lack the program that resolves type ids. The modules here use none.
	resolve := filepath.Join(dir, "tools/bpf/resolve_btfids/resolve_btfids")
	if _, err := os.Stat(resolve); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(resolve), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(resolve, []byte("#!/bin/sh\n"), 0o755); err != nil {
			return "", err
		}
	}
	return dir, os.WriteFile(done, nil, 0o644)
}
