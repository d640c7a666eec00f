package kernels

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// bounced is the number of known bytes read through bounce buffers.
const bounced = 16 << 20

// bounce makes a guest's DMA go through bounce buffers, as in a confidential guest, and
// gives it a disk of known bytes, whose MD5 sum bounce returns.
func bounce(t *testing.T, g *Guest) (sum string) {
	t.Helper()
	content := bytes.Repeat([]byte("known bytes 0123"), bounced/16)
	disk := filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(disk, content, 0o644); err != nil {
		t.Fatal(err)
	}
	g.Append = strings.TrimSpace(g.Append + " swiotlb=force")
	g.QEMU = append(g.QEMU, "-drive", "if=none,id=d1,format=raw,file="+disk, "-device", "virtio-blk-pci,drive=d1,disable-legacy=on,iommu_platform=on")
	return fmt.Sprintf("%x", md5.Sum(content))
}

const pool = `wget -q -O - http://127.0.0.1:9781/metrics | grep ^tee_swiotlb`

// readBounced reads the known bytes while an agent runs.
var readBounced = []Step{{Name: "before", Script: pool}, {Name: "read", Script: "md5sum /dev/vdb"}, {Name: "after", Script: pool}}

// single is the report of the only guest of `make test`. One boot serves the matrix, the bounce buffers and the
// enclave's pages, which come last: their module stays.
var single struct {
	sync.Mutex
	report *Report
	sum    string
}

func singleGuest(t *testing.T, k *Kernel, m mode) (r *Report, sum string) {
	t.Helper()
	single.Lock()
	defer single.Unlock()
	if single.report == nil {
		list := steps(k.Image, m)
		at := slices.IndexFunc(list, func(s Step) bool { return s.Name == stopAgent.Name })
		g := &Guest{Kernel: k, WithoutBTF: m.withoutBTF, Append: m.append, Steps: slices.Insert(list, at, readBounced...)}
		withPaging(t, g, touchPages)
		single.sum = bounce(t, g)
		single.report = boot(t, g)
	}
	return single.report, single.sum
}

// TestBounceBuffers counts the bytes of a disk that is read through bounce buffers.
func TestBounceBuffers(t *testing.T) {
	for i, name := range []string{singleKernel, "6.12 deb12 cloud"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if i > 0 {
				needMatrix(t)
			}
			k := fetch(t, named(t, name))
			var r *Report
			var sum string
			if *all {
				g := &Guest{Kernel: k, Steps: slices.Concat([]Step{runDoctor("doctor", ""), startAgent}, readBounced, []Step{stopAgent, bpfTests("TestBounce", 10*time.Minute)})}
				sum = bounce(t, g)
				r = boot(t, g)
			} else {
				r, sum = singleGuest(t, k, modes[0])
			}
			d := readDoctor(t, r.Steps["doctor"])
			for _, s := range []string{"swiotlb", "swiotlb_bounces"} {
				if d.state(s).State != "available" {
					t.Errorf("source %s is %+v", s, d.state(s))
				}
			}
			if got := r.Steps["read"].Text; !strings.HasPrefix(got, sum) {
				t.Errorf("the disk reads as %q", got)
			}
			if v := value(t, r, "after", "tee_swiotlb_size_bytes"); v < 1<<20 {
				t.Errorf("the pool has %v bytes", v)
			}
			const bytesOf = `tee_swiotlb_bounced_bytes_total\{[^}]*\}`
			// Each request maps a header, a status byte and a table in addition to its data.
			if v := value(t, r, "after", bytesOf) - value(t, r, "before", bytesOf); v < bounced || v > bounced*1.05 {
				t.Errorf("%v bytes bounced, %d were read", v, bounced)
			}
			grown := func(pattern string) float64 { return value(t, r, "after", pattern) - value(t, r, "before", pattern) }
			mapped, timed := grown(`tee_swiotlb_mappings_total\{[^}]*\}`), grown(`tee_swiotlb_operations_total\{operation="map",[^}]*\}`)
			if timed != mapped || grown(`tee_swiotlb_operations_total\{operation="unmap",[^}]*\}`) != mapped {
				t.Errorf("%v of %v mappings are timed", timed, mapped)
			}
			if v := grown(`tee_swiotlb_seconds_total\{[^}]*\}`); !(v > 0) {
				t.Errorf("bounce buffers took %v s", v)
			}
			mustPass(t, r.Steps["tests"], "TestBouncedBytesAreExact")
			note(t, k.Uname, "bounce buffers (swiotlb=force, virtio disk): %d bytes read, %.0f bounced", bounced, value(t, r, "after", bytesOf)-value(t, r, "before", bytesOf))
		})
	}
}

// mustPass checks that a test and its subtests ran and passed.
func mustPass(t *testing.T, o Output, name string) {
	t.Helper()
	ran := false
	for line := range strings.Lines(o.Text) {
		if f := testLine.FindStringSubmatch(line); f != nil && (f[2] == name || strings.HasPrefix(f[2], name+"/")) {
			ran = true
			if f[1] != "PASS" {
				t.Errorf("%s: %s", f[2], f[1])
			}
		}
	}
	if !ran {
		t.Errorf("%s did not run: %s", name, tail(o.Text))
	}
}

// needMatrix skips a slow test outside the matrix.
func needMatrix(t *testing.T) {
	t.Helper()
	if !*all {
		t.Skip("is part of the kernel matrix: make kernels")
	}
}

// TestNestedGuest runs a virtual machine in a guest with AMD's extensions, emulated. The
// number of its exits is known.
func TestNestedGuest(t *testing.T) {
	needMatrix(t)
	for _, name := range []string{"6.1 generic", "6.12 deb12 generic", "6.12 deb13 cloud"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := fetch(t, named(t, name))
			r := boot(t, &Guest{Kernel: k, Modules: []string{"kvm-amd"}, Steps: []Step{
				runDoctor("doctor", ""), bpfTests("TestKVM", 5*time.Minute),
			}})
			d := readDoctor(t, r.Steps["doctor"])
			for _, s := range []string{"kvm", "vm"} {
				if d.state(s).State != "available" {
					t.Errorf("source %s is %+v", s, d.state(s))
				}
			}
			mustPass(t, r.Steps["tests"], "TestKVM")
			mustPass(t, r.Steps["tests"], "TestKVMHooks")
			note(t, k.Uname, "nested virtual machine: exits counted exactly, for each reason")
		})
	}
}

// TestModules loads modules of this repository. They call functions with the signatures
// of the SGX driver's and of a confidential guest's a known number of times, which the
// probes must count.
// stand-in: sgx-driver
func TestModules(t *testing.T) {
	needMatrix(t)
	for _, c := range []struct{ name, folder, test string }{
		{"SGX driver", "stub", "TestSGXFires"},
		{"confidential guest", "ccguest", "TestGuestFunctionsFire"},
	} {
		for _, name := range []string{"6.1 cloud", "6.12 deb12 cloud"} {
			t.Run(fmt.Sprintf("%s %s", c.name, name), func(t *testing.T) {
				t.Parallel()
				tool(t, "make", "make")
				tool(t, "gcc-12", "gcc-12")
				tool(t, "pahole", "pahole")
				k := fetch(t, named(t, name))
				a, err := cache()
				if err != nil {
					t.Fatal(err)
				}
				fetching.Lock()
				module, err := a.Module(t.Context(), k, c.folder, t.TempDir())
				fetching.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				r := boot(t, &Guest{Kernel: k, Extra: []string{module}, Steps: []Step{
					runDoctor("doctor", ""), bpfTests(c.test, 5*time.Minute),
				}})
				mustPass(t, r.Steps["tests"], c.test)
				if s := readDoctor(t, r.Steps["doctor"]).state("sgx_legacy"); c.folder == "stub" && s.State != "available" {
					t.Errorf("source sgx_legacy is %+v", s)
				}
				note(t, k.Uname, "%s (module %s): calls of each function counted exactly", c.name, c.folder)
			})
		}
	}
}
