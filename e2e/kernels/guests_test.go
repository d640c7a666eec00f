package kernels

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBounceBuffers reads known bytes from a disk whose DMA goes through bounce
// buffers, as in a confidential guest.
func TestBounceBuffers(t *testing.T) {
	for i, name := range []string{"6.1 cloud", "6.12 deb12 cloud"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if i > 0 {
				needMatrix(t)
			}
			k := fetch(t, named(t, name))
			const size = 16 << 20
			content := bytes.Repeat([]byte("known bytes 0123"), size/16)
			disk := filepath.Join(t.TempDir(), "known")
			if err := os.WriteFile(disk, content, 0o644); err != nil {
				t.Fatal(err)
			}
			const pool = `wget -q -O - http://127.0.0.1:9781/metrics | grep ^tee_swiotlb`
			r := boot(t, &Guest{
				Kernel: k, Append: "swiotlb=force",
				QEMU: []string{"-drive", "if=none,id=d1,format=raw,file=" + disk, "-device", "virtio-blk-pci,drive=d1,disable-legacy=on,iommu_platform=on"},
				Steps: []Step{
					runDoctor("doctor", ""), startAgent, {Name: "before", Script: pool},
					{Name: "read", Script: "md5sum /dev/vdb"}, {Name: "after", Script: pool}, stopAgent,
					bpfTests("TestBounce", 10*time.Minute),
				},
			})
			d := readDoctor(t, r.Steps["doctor"])
			for _, s := range []string{"swiotlb", "swiotlb_bounces"} {
				if d.state(s).State != "available" {
					t.Errorf("source %s is %+v", s, d.state(s))
				}
			}
			sum := md5.Sum(content)
			if got := r.Steps["read"].Text; !strings.HasPrefix(got, hex.EncodeToString(sum[:])) {
				t.Errorf("the disk reads as %q", got)
			}
			if v := value(t, r, "after", "tee_swiotlb_size_bytes"); v < 1<<20 {
				t.Errorf("the pool has %v bytes", v)
			}
			const bytesOf = `tee_swiotlb_bounced_bytes_total\{[^}]*\}`
			// Each request maps a header, a status byte and a table besides its data.
			if v := value(t, r, "after", bytesOf) - value(t, r, "before", bytesOf); v < size || v > size*1.05 {
				t.Errorf("%v bytes bounced, %d were read", v, size)
			}
			mustPass(t, r.Steps["tests"], "TestBouncedBytesAreExact")
			note(t, k.Uname, "bounce buffers (swiotlb=force, virtio disk): %d bytes read, %.0f bounced", size, value(t, r, "after", bytesOf)-value(t, r, "before", bytesOf))
		})
	}
}

// mustPass looks that a test and its subtests ran and passed.
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

// needMatrix skips what takes its time unless the whole matrix is asked for.
func needMatrix(t *testing.T) {
	t.Helper()
	if !*all {
		t.Skip("is part of the kernel matrix: make kernels")
	}
}

// TestNestedGuest runs a virtual machine in a guest whose processor has AMD's
// extensions, emulated, so that the number of exits is known.
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
			note(t, k.Uname, "a virtual machine in the guest: exits of each reason as made")
		})
	}
}

// TestModules loads modules of ours that call functions of the SGX driver's and
// of a confidential guest's signatures a known number of times, so that the
// probes are seen to fire.
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
				note(t, k.Uname, "%s (module %s): each function counted as often as called", c.name, c.folder)
			})
		}
	}
}
