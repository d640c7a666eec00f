package kernels

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Archive is Debian's archive as apt sees it through separate lists. The machine's own lists are
// neither read nor changed, and need not be Debian 12's.
type Archive struct {
	// Dir keeps the lists and the unpacked kernels.
	Dir string
}

// suites are the releases whose kernels are tested, and fresh is how long their lists stay valid.
// aptTime bounds a mirror that stops answering.
var suites = []string{"bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid"}

const (
	mirror   = "http://deb.debian.org"
	keyring  = "/usr/share/keyrings/debian-archive-keyring.gpg"
	fresh    = 7 * 24 * time.Hour
	aptTime  = 10 * time.Minute
	stampMod = 0o644
)

// ErrNoKernels says that this machine has no apt, no network and no cached kernels.
var ErrNoKernels = errors.New("no kernel images available")

// Image is a package with a kernel in it.
type Image struct {
	// Package is its name, such as linux-image-6.12.117+deb12-cloud-amd64.
	Package string
	// Series is the upstream version's first two numbers.
	Series Version
	// Release is "deb12" or similar if the name has it: one series is built for several releases,
	// with different compilers.
	Release string
	// Flavour is "generic", "cloud" or "rt".
	Flavour string
	// numbers orders packages of a series.
	numbers []int
}

// Version is a kernel's major and minor number.
type Version [2]int

// String formats the version, as in 6.12.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v[0], v[1]) }

// Before reports whether v is older than w.
func (v Version) Before(w Version) bool { return slices.Compare(v[:], w[:]) < 0 }

// Name is the short name of a kernel in tables.
func (im Image) Name() string {
	name := im.Series.String()
	if im.Release != "" {
		name += " " + im.Release
	}
	return name + " " + im.Flavour
}

var imageName = regexp.MustCompile(`^linux-image-(\d+)\.(\d+)([.\d-]*)(?:\+(deb\d+)([.\d]*))?(-cloud|-rt)?-amd64$`)

// parseImage parses the name of a package. ok is false if it does not name one kernel for
// 64-bit PCs.
func parseImage(name string) (im Image, ok bool) {
	m := imageName.FindStringSubmatch(name)
	if m == nil || m[3] == "" {
		return Image{}, false
	}
	im = Image{Package: name, Release: m[4], Flavour: cmp.Or(strings.TrimPrefix(m[6], "-"), "generic")}
	for _, digits := range regexp.MustCompile(`\d+`).FindAllString(m[1]+" "+m[2]+" "+m[3]+" "+m[5], -1) {
		n, err := strconv.Atoi(digits)
		if err != nil {
			return Image{}, false
		}
		im.numbers = append(im.numbers, n)
	}
	im.Series = Version{im.numbers[0], im.numbers[1]}
	return im, true
}

// newest keeps the newest image of each series, release and flavour, oldest
// series first.
func newest(images []Image) []Image {
	best := map[string]Image{}
	for _, im := range images {
		if have, ok := best[im.Name()]; !ok || slices.Compare(have.numbers, im.numbers) < 0 {
			best[im.Name()] = im
		}
	}
	var out []Image
	for _, im := range best {
		out = append(out, im)
	}
	slices.SortFunc(out, func(a, b Image) int {
		return cmp.Or(slices.Compare(a.Series[:], b.Series[:]), cmp.Compare(a.Release, b.Release), cmp.Compare(a.Flavour, b.Flavour))
	})
	return out
}

// Images lists the newest image of each series, release and flavour in the archive. It fetches
// lists that are older than a week, and uses the old ones if that fails.
func (a *Archive) Images(ctx context.Context) ([]Image, error) {
	old := a.update(ctx)
	out, err := a.apt(ctx, "apt-cache", "search", "--names-only", `^linux-image-[0-9].*-amd64$`)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoKernels, errors.Join(old, err))
	}
	var images []Image
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(line, " ")
		if im, ok := parseImage(name); ok {
			images = append(images, im)
		}
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrNoKernels, cmp.Or(old, fmt.Errorf("the lists of %s have none", mirror)))
	}
	return newest(images), nil
}

func (a *Archive) update(ctx context.Context) error {
	stamp := filepath.Join(a.Dir, "apt/updated")
	if s, err := os.Stat(stamp); err == nil && time.Since(s.ModTime()) < fresh {
		return nil
	}
	for _, d := range []string{"apt/lists/partial", "apt/cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.Dir, d), 0o755); err != nil {
			return err
		}
	}
	var list strings.Builder
	for _, s := range suites {
		fmt.Fprintf(&list, "deb [arch=amd64 signed-by=%s] %s/debian %s main\n", keyring, mirror, s)
		if s != "sid" && !strings.Contains(s, "-") {
			fmt.Fprintf(&list, "deb [arch=amd64 signed-by=%s] %s/debian-security %s-security main\n", keyring, mirror, s)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(a.Dir, "apt/sources.list"), []byte(list.String()), stampMod),
		os.WriteFile(filepath.Join(a.Dir, "apt/status"), nil, stampMod)); err != nil {
		return err
	}
	// Without the option apt succeeds even if lists are missing.
	if _, err := a.apt(ctx, "apt-get", "update", "-qq", "-o", "APT::Update::Error-Mode=any"); err != nil {
		return err
	}
	return os.WriteFile(stamp, nil, stampMod)
}

// pauses are waited for between the attempts to reach a mirror.
var pauses = []time.Duration{5 * time.Second, 30 * time.Second}

// apt runs a command of apt on this archive's lists, again if a mirror fails.
func (a *Archive) apt(ctx context.Context, name string, args ...string) (out []byte, err error) {
	for i := 0; ; i++ {
		if out, err = a.aptOnce(ctx, name, args...); err == nil || name != "apt-get" || i == len(pauses) {
			return out, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pauses[i]):
		}
	}
}

func (a *Archive) aptOnce(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, aptTime)
	defer cancel()
	dir := filepath.Join(a.Dir, "apt")
	cmd := exec.CommandContext(ctx, name, append([]string{
		"-o", "Dir::Etc::SourceList=" + dir + "/sources.list", "-o", "Dir::Etc::SourceParts=/dev/null",
		"-o", "Dir::State::Lists=" + dir + "/lists", "-o", "Dir::State::status=" + dir + "/status", "-o", "Dir::Cache=" + dir + "/cache",
		"-o", "Acquire::Languages=none", "-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false", "-o", "APT::Sandbox::User=root",
	}, args...)...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second // for its children
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// parts lists the packages of an image: since 7.3 the kernel and its modules are separate
// packages.
func (a *Archive) parts(ctx context.Context, im Image) ([]string, error) {
	out, err := a.apt(ctx, "apt-cache", "depends", "--no-recommends", "--no-suggests", im.Package)
	if err != nil {
		return nil, err
	}
	parts := []string{im.Package}
	for _, m := range regexp.MustCompile(`Depends: (linux-(?:binary|modules)-\S+)`).FindAllStringSubmatch(string(out), -1) {
		parts = append(parts, m[1])
	}
	return parts, nil
}

// download fetches packages and returns their files. The caller removes them.
func (a *Archive) download(ctx context.Context, packages ...string) ([]string, error) {
	pattern := filepath.Join(a.Dir, "apt/*.deb")
	left, err := filepath.Glob(pattern) // of an interrupted download
	if err != nil {
		return nil, err
	}
	for _, deb := range left {
		if err := os.Remove(deb); err != nil {
			return nil, err
		}
	}
	if _, err := a.apt(ctx, "apt-get", append([]string{"download", "-qq"}, packages...)...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoKernels, err)
	}
	return filepath.Glob(pattern)
}
