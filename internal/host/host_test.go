package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// tree is a host below a temporary root with the given files.
func tree(t *testing.T, files map[string]string) *Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return At(root)
}

// TestInstalledStarts: a program can be started as soon as it is there, also while others start.
func TestInstalledStarts(t *testing.T) {
	dir := t.TempDir()
	h := Local()
	self, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Skip("no /bin/true: ", err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	for i := range 8 {
		all.Go(func() {
			name := filepath.Join(dir, fmt.Sprint(i))
			for range 200 {
				if err := errors.Join(h.RemoveAll(name), h.Install(name, self, 0o755)); err != nil {
					t.Error(err)
					return
				}
				if _, err := h.Exec(t.Context(), Cmd{Argv: []string{name}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
}

// TestRemoveAllReadOnly: a folder that may not be written is removed all the same.
func TestRemoveAllReadOnly(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "image", "usr")
	if err := os.MkdirAll(filepath.Join(inner, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{inner, filepath.Dir(inner)} {
		if err := os.Chmod(d, 0o555); err != nil {
			t.Fatal(err)
		}
	}
	if err := Local().RemoveAll(filepath.Dir(inner)); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestFiles(t *testing.T) {
	h := tree(t, map[string]string{"proc/a": " one\n", "proc/n": "42\n", "proc/bad": "4x\n", "sys/x/1/v": "", "sys/x/2/v": ""})
	if b, err := h.ReadFile("/proc/a"); err != nil || string(b) != " one\n" {
		t.Errorf("ReadFile: %q, %v", b, err)
	}
	if s, err := h.ReadString("/proc/a"); err != nil || s != "one" {
		t.Errorf("ReadString: %q, %v", s, err)
	}
	if n, err := h.ReadUint("/proc/n"); err != nil || n != 42 {
		t.Errorf("ReadUint: %d, %v", n, err)
	}
	if _, err := h.ReadUint("/proc/bad"); err == nil || !strings.Contains(err.Error(), "/proc/bad") {
		t.Errorf("ReadUint of no number: %v", err)
	}
	m, err := h.Glob("/sys/x/*/v")
	if want := []string{"/sys/x/1/v", "/sys/x/2/v"}; err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("Glob: %v, %v", m, err)
	}
	e, err := h.ReadDir("/sys/x")
	if err != nil || len(e) != 2 || e[0].Name() != "1" {
		t.Errorf("ReadDir: %v, %v", e, err)
	}
	if err := h.WriteFile("/proc/a", []byte("two")); err != nil {
		t.Error(err)
	}
	if s, _ := h.ReadString("/proc/a"); s != "two" {
		t.Errorf("after WriteFile: %q", s)
	}
	if err := os.Symlink("net:[1]", h.Path("/proc/link")); err != nil {
		t.Fatal(err)
	}
	if s, err := h.Readlink("/proc/link"); err != nil || s != "net:[1]" {
		t.Errorf("Readlink: %q, %v", s, err)
	}
	if fi, err := h.Stat("/proc"); err != nil || !fi.IsDir() {
		t.Errorf("Stat: %v, %v", fi, err)
	}
}

// TestErrorsNameTheMachinesPath: a message never shows where a fixture lies.
func TestErrorsNameTheMachinesPath(t *testing.T) {
	h := tree(t, map[string]string{"proc/a": ""})
	_, read := h.ReadFile("/proc/none")
	_, number := h.ReadUint("/proc/none")
	_, dir := h.ReadDir("/proc/none")
	_, stat := h.Stat("/proc/none")
	_, link := h.Readlink("/proc/none")
	_, through := h.Stat("/proc/a/none")
	write := h.WriteFile("/none/none", nil)
	for name, err := range map[string]error{"read": read, "number": number, "dir": dir, "stat": stat, "link": link, "through": through, "write": write} {
		t.Run(name, func(t *testing.T) {
			if err == nil || strings.Contains(err.Error(), h.Root) || !strings.Contains(err.Error(), "/none") {
				t.Errorf("%s: %v", name, err)
			}
			if name != "through" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v is not ErrNotExist", name, err)
			}
		})
	}
}

func TestExistsHasThreeAnswers(t *testing.T) {
	h := tree(t, map[string]string{"proc/a": ""})
	if ok, err := h.Exists("/proc/a"); !ok || err != nil {
		t.Errorf("there: %v, %v", ok, err)
	}
	if ok, err := h.Exists("/proc/b"); ok || err != nil {
		t.Errorf("not there: %v, %v", ok, err)
	}
	// A path through a file gives ENOTDIR, which says nothing of absence.
	if ok, err := h.Exists("/proc/a/b"); ok || err == nil {
		t.Errorf("could not tell: %v, %v", ok, err)
	}
}

func TestExec(t *testing.T) {
	h := Local()
	o, err := h.Exec(t.Context(), Cmd{Argv: []string{"sh", "-c", "cat; echo $X; pwd; echo bad >&2"}, Env: map[string]string{"X": "y"}, Dir: "/", Stdin: []byte("in\n")})
	if err != nil || string(o.Stdout) != "in\ny\n/\n" || string(o.Stderr) != "bad\n" || o.Code != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = h.Exec(t.Context(), Cmd{Argv: []string{"sh", "-c", "exit 3"}})
	if err == nil || o.Code != 3 || !strings.Contains(err.Error(), "run sh") {
		t.Errorf("exit 3: %+v, %v", o, err)
	}
	if _, err = h.Exec(t.Context(), Cmd{Argv: []string{"/none/such"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing program: %v", err)
	}
	if _, err = h.Exec(t.Context(), Cmd{}); err == nil {
		t.Error("an empty command runs")
	}
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err = h.Exec(ctx, Cmd{Argv: []string{"sleep", "6000"}}); err == nil {
		t.Error("a command outlives its context")
	}
}

func TestHeard(t *testing.T) {
	var lines []string
	o, err := Local().Exec(t.Context(), Cmd{Argv: []string{"sh", "-c", "printf 'a\nb' >&2; echo; printf 'c\n\nd' >&2"}, Heard: func(line string) string { lines = append(lines, line); return "" }})
	if want := []string{"a", "bc", ""}; err != nil || !slices.Equal(lines, want) || string(o.Stderr) != "a\nbc\n\nd" {
		t.Errorf("heard %q of %q, want %q; %v", lines, o.Stderr, want, err)
	}
	for _, ready := range []string{"", "no such line"} { // of which the latter keeps standard input open
		o, err := Local().Exec(t.Context(), Cmd{Argv: []string{"sh", "-c", "echo may I >&2; read a; echo and now >&2; read b; echo $a $b"}, Ready: ready,
			Heard: func(line string) string { return "yes, " + line + "\n" }})
		if want := "yes, may I yes, and now\n"; err != nil || string(o.Stdout) != want {
			t.Errorf("ready line %q: the command read %q, want %q; %v", ready, o.Stdout, want, err)
		}
	}
}

func TestStatfs(t *testing.T) {
	st, err := Local().Statfs("/")
	if err != nil || st.Bsize <= 0 || st.Blocks == 0 || st.Bfree > st.Blocks {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := Local().Statfs("/none"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/none") {
		t.Errorf("missing path: %v", err)
	}
}

// TestCPUID compares the instruction with what the kernel printed of it.
func TestCPUID(t *testing.T) {
	h := Local()
	last, b, c, d := h.CPUID(0, 0)
	if runtime.GOARCH != "amd64" {
		if last != 0 {
			t.Errorf("CPUID answers on %s", runtime.GOARCH)
		}
		return
	}
	var vendor strings.Builder
	for _, r := range []uint32{b, d, c} {
		vendor.Write([]byte{byte(r), byte(r >> 8), byte(r >> 16), byte(r >> 24)})
	}
	info, err := h.ReadString("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(info, vendor.String()) {
		t.Errorf("vendor %q is not in /proc/cpuinfo", vendor.String())
	}
	_, _, ecx, _ := h.CPUID(1, 0)
	if got, want := ecx&(1<<31) != 0, strings.Contains(info, " hypervisor "); got != want {
		t.Errorf("hypervisor bit %v, flag %v", got, want)
	}
}

func TestMSR(t *testing.T) {
	// A regular file stands in for the device: register 0x10 is at offset 0x10.
	h := tree(t, map[string]string{"dev/cpu/0/msr": strings.Repeat("\x00", 16) + "\x07\x00\x00\x00\x00\x00\x00\x80"})
	if v, err := h.MSR(0, 0x10); err != nil || v != 1<<63|7 {
		t.Errorf("%#x, %v", v, err)
	}
	if _, err := h.MSR(0, 0x18); err == nil || !strings.Contains(err.Error(), "0x18") {
		t.Errorf("past the end: %v", err)
	}
	if _, err := h.MSR(1, 0x10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such CPU: %v", err)
	}
}

// TestRemoveTemp: what killed processes left goes, what is new or another's stays.
func TestRemoveTemp(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	h := Local()
	dir, err := h.MkdirTemp("ours")
	if err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]bool{"ours-old": true, "ours-file": false, "other-old": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(tmp, name)
			if folder {
				err = os.Mkdir(path, 0o700)
			} else {
				err = os.WriteFile(path, nil, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if folder {
				err = os.WriteFile(filepath.Join(path, "micro"), nil, 0o700)
			}
			old := time.Now().Add(-time.Hour)
			if err = errors.Join(err, os.Chtimes(path, old, old)); err != nil {
				t.Fatal(err)
			}
		})
	}
	want := []string{filepath.Base(dir), "other-old", "ours-file"}
	if os.Geteuid() == 0 { // only root can make what is another user's
		theirs := filepath.Join(tmp, "ours-theirs")
		old := time.Now().Add(-time.Hour)
		if err := errors.Join(os.Mkdir(theirs, 0o777), os.Chown(theirs, 12345, 12345), os.Chtimes(theirs, old, old)); err != nil {
			t.Fatal(err)
		}
		want = append(want, "ours-theirs")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	h.RemoveTemp(ended, "ours", 10*time.Minute)
	if _, err := os.Stat(filepath.Join(tmp, "ours-old", "micro")); err != nil {
		t.Errorf("it goes on after its context has ended: %v", err)
	}
	h.RemoveTemp(t.Context(), "ours", 10*time.Minute)
	var left []string
	entries, err := os.ReadDir(tmp)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	slices.Sort(want)
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v, %v", left, want, err)
	}
}
