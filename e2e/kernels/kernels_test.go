package kernels

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestParseImage(t *testing.T) {
	for name, want := range map[string]string{
		"linux-image-6.1.0-56-cloud-amd64":           "6.1 cloud",
		"linux-image-6.12.117+deb12-amd64":           "6.12 deb12 generic",
		"linux-image-6.12.90+deb13.1-rt-amd64":       "6.12 deb13 rt",
		"linux-image-5.10.0-46-amd64":                "5.10 generic",
		"linux-image-6.12-amd64":                     "",
		"linux-image-amd64":                          "",
		"linux-image-6.1.0-56-amd64-unsigned":        "",
		"linux-image-6.1.0-56-cloud-amd64-dbg":       "",
		"linux-image-99999999999999999999.1.0-amd64": "",
	} {
		t.Run(name, func(t *testing.T) {
			im, ok := parseImage(name)
			if ok != (want != "") || ok && im.Name() != want {
				t.Errorf("%s is %q, %v; want %q", name, im.Name(), ok, want)
			}
		})
	}
}

func TestNewest(t *testing.T) {
	var images []Image
	for _, name := range []string{
		"linux-image-6.12.90+deb13.1-amd64", "linux-image-6.12.117+deb12-amd64", "linux-image-6.12.100+deb13-amd64",
		"linux-image-6.1.0-9-amd64", "linux-image-6.1.0-56-amd64", "linux-image-6.12.90+deb13-amd64",
	} {
		im, ok := parseImage(name)
		if !ok {
			t.Fatal(name)
		}
		images = append(images, im)
	}
	var got []string
	for _, im := range newest(images) {
		got = append(got, im.Package)
	}
	if want := []string{"linux-image-6.1.0-56-amd64", "linux-image-6.12.117+deb12-amd64", "linux-image-6.12.100+deb13-amd64"}; !slices.Equal(got, want) {
		t.Errorf("newest are %v, want %v", got, want)
	}
}

func TestSplit(t *testing.T) {
	g := &Guest{Steps: []Step{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	text := "noise\n\x01step begin 0\none\ntwo\n\x01step end 0 0\n\n\x01step begin 1\n\n\x01step end 1 137\n\n\x01step begin 2\nhalf of it"
	steps, over := g.split(text)
	if over || len(steps) != 2 || steps["a"] != (Output{"one\ntwo", 0}) || steps["b"] != (Output{"", 137}) {
		t.Errorf("cut off: %v, %v", steps, over)
	}
	if steps, over = g.split(text + "\n\x01step end 2 1\n\n\x01step over\n"); !over || steps["c"] != (Output{"half of it", 1}) {
		t.Errorf("whole: %v, %v", steps, over)
	}
	if steps, _ = g.split("\n\x01step begin 9\nx\n\x01step end 9 0\n"); len(steps) != 0 {
		t.Errorf("a step that was not asked for: %v", steps)
	}
}

// Anything that is not a kernel is refused, whatever its length.
func TestVMLinuxRefuses(t *testing.T) {
	image := make([]byte, 0x800)
	copy(image[0x202:], "HdrS")
	image[0x1f1], image[0x24c] = 1, 16
	copy(image[0x400:], "no such magic")
	for n := 0; n <= len(image); n += 16 {
		if b, err := vmlinux(image[:n]); err == nil {
			t.Errorf("%d bytes gave an image of %d", n, len(b))
		}
	}
	for _, at := range []int{0x248, 0x24c} {
		broken := bytes.Clone(image)
		copy(broken[at:], "\xff\xff\xff\xff")
		if _, err := vmlinux(broken); err == nil {
			t.Errorf("taken with %#x broken", at)
		}
	}
}

func TestExceptions(t *testing.T) {
	list := []exception{
		{what: "a|b", before: Version{6, 5}, mode: "plain", says: "no function"},
		{what: "c", from: Version{6, 12}, says: "x"},
	}
	for _, c := range []struct {
		series             Version
		mode, what, reason string
		excused            bool
	}{
		{Version{6, 1}, "plain", "a", "this has no function a", true},
		{Version{6, 1}, "plain", "b", "no function", true},
		{Version{6, 5}, "plain", "a", "no function", false},
		{Version{6, 1}, "no BTF", "a", "no function", false},
		{Version{6, 1}, "plain", "ab", "no function", false},
		{Version{6, 1}, "plain", "a", "other", false},
		{Version{6, 12}, "anything", "c", "x", true},
		{Version{6, 9}, "anything", "c", "x", false},
	} {
		if err := excused(list, Image{Series: c.series}, c.mode, c.what, c.reason); (err == nil) != c.excused {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// An exception without its test excuses nothing: each names tests of package bpf that guests run.
func TestExceptionsAreOfTests(t *testing.T) {
	files, err := filepath.Glob("../../internal/probe/bpf/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, file := range files {
		if strings.HasSuffix(file, "_measure_test.go") {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(b), -1) {
			tests = append(tests, f[1])
		}
	}
	for _, e := range testExceptions {
		if strings.HasPrefix(e.what, ".*") { // variants of programs, in the names of subtests
			continue
		}
		for _, what := range strings.Split(regexp.MustCompile(`/[^|(]*(\([^)]*\)[^|(]*)*`).ReplaceAllString(e.what, ""), "|") {
			if name := regexp.MustCompile("^(?:" + what + ")$"); !slices.ContainsFunc(tests, name.MatchString) {
				t.Errorf("exception %q: package bpf has no test %s", e.what, what)
			}
		}
	}
}
