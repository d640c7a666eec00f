package environment

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
)

// filled returns an environment in which every field has a value.
func filled() result.Environment {
	bits, open := 1e10, 2.5
	return result.Environment{
		ID: "vm", Role: result.Treatment, Launcher: "qemu",
		Params: map[string]string{"memory": "4GiB"}, Subject: map[string]string{"binary": "new"},
		Digests: map[string]string{"micro": "sha256:1"},
		TEE: result.TEE{Type: "sev", Active: true, Facts: []tee.Facts{{Kind: "sev", Variant: "sev-snp", Role: tee.Guest, Active: true}},
			Evidence: []tee.Evidence{{Source: "MSR", Value: "0x7"}}, Settings: map[string]string{"swiotlb_bytes": "1"}},
		Hardware: result.Hardware{
			CPUModel: "m", CPUVendor: "v", CPUFamily: "6-106-6", Microcode: "0x1", CPUs: 4, Sockets: 1, ThreadsPerCore: 2, SMT: "on",
			NUMANodes: 1, Affinity: "0-3", Governor: "performance", Turbo: "on", CacheBytes: map[string]int64{"L2": 1},
			Mitigations: map[string]string{"mds": "Not affected"}, MemoryBytes: 4 << 30, SwapBytes: 1, THP: "always",
			Disks: []result.Disk{{Name: "sda", Model: "d", Bytes: 1, Rotational: true, Scheduler: "none", WriteCache: "write back"}},
			NICs:  []result.NIC{{Name: "eth0", Driver: "virtio_net", MTU: 1500, BitsPerSecond: &bits}},
			GPUs:  []result.GPU{{Model: "H100", Driver: "550", CCMode: "on"}}, Serial: "1234",
		},
		Software: result.Software{
			Kernel: "6.12.41-amd64", Cmdline: "quiet", OS: "Debian", Libc: "glibc 2.36", Hypervisor: "KVM", ClockSource: "tsc",
			Limits: map[string]string{"cpus": "2"}, Versions: map[string]string{"fio": "3.33"}, Worker: map[string]string{"date": "2026"},
			CachePolicy: "direct", Encryption: map[string]string{"storage": "dm-crypt"},
		},
		Network:     "loopback",
		Cloud:       &result.Cloud{Provider: "aws", Region: "r", Zone: "z", InstanceType: "m6a.large"},
		OpenSeconds: &open, NullSeconds: &result.Spread{Mean: 1},
		Missing: map[string]string{},
	}
}

// each calls do with a copy of an environment in which one value, by JSON path, differs.
func each(t *testing.T, e result.Environment, do func(path string, e *result.Environment)) {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any, set func(any))
	walk = func(path string, v any, set func(any)) {
		try := func(other any) {
			set(other)
			b, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			var changed result.Environment
			if err := json.Unmarshal(b, &changed); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			do(strings.TrimPrefix(path, "."), &changed)
			set(v)
		}
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				walk(path+"."+k, v[k], func(x any) { v[k] = x })
			}
		case []any:
			for i := range v {
				name := "0"
				if m, ok := v[i].(map[string]any); ok && m["name"] != nil {
					name = m["name"].(string)
				}
				walk(path+"."+name, v[i], func(x any) { v[i] = x })
			}
		case string:
			try(v + "x")
		case float64:
			try(v + 1<<30)
		case bool:
			try(!v)
		}
	}
	walk("", tree, nil)
}

// TestScopes changes one field after the other and checks the effect. It repeats the list of scopes on purpose.
func TestScopes(t *testing.T) {
	// Not by themselves part of a comparison.
	free := []string{"env_id", "role", "tee.declared", "tee.evidence", "fingerprint", "fingerprint_class", "open_seconds", "null_run_seconds"}
	// Change with the program under test.
	subject := []string{"subject", "digests", "software.worker"}
	class := []string{"launcher", "tee.type", "tee.active", "tee.debug", "hardware.cpu_model", "hardware.cpu_vendor", "hardware.cpu_family",
		"hardware.cpus", "hardware.sockets", "hardware.threads_per_core", "hardware.memory_bytes", "hardware.gpus.0.model",
		"hardware.gpus.0.confidential_compute", "software.hypervisor", "software.limits", "software.encryption",
		"cloud.provider", "cloud.instance_type"}
	in := func(list []string, path string) bool {
		return slices.ContainsFunc(list, func(p string) bool { return p == path || strings.HasPrefix(path, p+".") })
	}
	base := filled()
	Fingerprint(&base)
	seen := 0
	each(t, base, func(path string, e *result.Environment) {
		seen++
		diff := Diff(&base, e)
		Fingerprint(e)
		if want := !in(free, path); (len(diff) > 0) != want {
			t.Errorf("%s: Diff %v, want a difference: %t", path, diff, want)
		}
		if want := !in(free, path) && !in(subject, path); (e.Fingerprint != base.Fingerprint) != want {
			t.Errorf("%s: another fingerprint: %t, want %t", path, !want, want)
		}
		if want := in(class, path); (e.Class != base.Class) != want {
			t.Errorf("%s: another class: %t, want %t", path, !want, want)
		}
		// Facts, names of devices and GPUs by number are keys of their own.
		if len(diff) > 0 && !strings.Contains(path, "facts.0") && !strings.HasSuffix(path, ".name") && diff[0].Field != path {
			t.Errorf("%s: Diff names %v", path, diff)
		}
	})
	if seen < 60 {
		t.Errorf("only %d fields were changed", seen)
	}
}

func TestKernelSeriesIsInTheClass(t *testing.T) {
	a, b, c := filled(), filled(), filled()
	b.Software.Kernel, c.Software.Kernel = "6.12.60-cloud", "6.13-rc1"
	for _, e := range []*result.Environment{&a, &b, &c} {
		Fingerprint(e)
	}
	if a.Class != b.Class || a.Class == c.Class || a.Fingerprint == b.Fingerprint {
		t.Errorf("classes %s %s %s", a.Class, b.Class, c.Class)
	}
}

// TestFreeRunning: two captures of one machine, moments apart, are one environment.
func TestFreeRunning(t *testing.T) {
	for _, path := range fixtures(t, "*") {
		f := hosttest.Open(t, path)
		a := captured(f)
		f.Host.Now = func() time.Time { return time.Unix(0, 0) }
		write(t, f, "proc/loadavg", "9.99 1 1 1/1 1\n")
		write(t, f, "proc/uptime", "1 1\n")
		b := captured(f)
		if info, err := f.Host.ReadString("/proc/cpuinfo"); err == nil {
			write(t, f, "proc/cpuinfo", strings.ReplaceAll(info, "cpu MHz		: ", "cpu MHz		: 1"))
		}
		if mem, err := f.Host.ReadString("/proc/meminfo"); err == nil {
			// The kernel reserves a little more for itself after this boot.
			write(t, f, "proc/meminfo", strings.Replace(mem, "MemTotal:       527950312 kB", "MemTotal:       527950100 kB", 1))
		}
		c := captured(f)
		for _, e := range []*result.Environment{&a, &b, &c} {
			Fingerprint(e)
		}
		if a.Fingerprint != b.Fingerprint || a.Fingerprint != c.Fingerprint || a.Class != c.Class {
			t.Errorf("%s: another fingerprint of the same machine: %v %v", path, Diff(&a, &b), Diff(&a, &c))
		}
		if !strings.HasPrefix(a.Fingerprint, "sha256:") || a.Fingerprint == a.Class {
			t.Errorf("%s: %s, %s", path, a.Fingerprint, a.Class)
		}
	}
}

// TestDiffLeavesOutTheUnknown: a field that one side could not read is not known to differ; a field that one side has
// and the other lacks differs.
func TestDiffLeavesOutTheUnknown(t *testing.T) {
	a, b := filled(), filled()
	b.Hardware.Microcode, b.Missing["hardware.microcode"] = "", "hidden"
	b.Hardware.Disks, b.Missing["hardware.disks"] = nil, "/sys/block lists no disk"
	b.Software.Limits = map[string]string{"container": "gvisor"}
	b.Cloud = nil
	want := []result.Difference{
		{Field: "cloud.instance_type", Baseline: "m6a.large"},
		{Field: "cloud.provider", Baseline: "aws"},
		{Field: "cloud.region", Baseline: "r"},
		{Field: "cloud.zone", Baseline: "z"},
		{Field: "software.limits.container", Treatment: "gvisor"},
		{Field: "software.limits.cpus", Baseline: "2"},
	}
	if got := Diff(&a, &b); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	for i := range want {
		want[i].Baseline, want[i].Treatment = want[i].Treatment, want[i].Baseline
	}
	if got := Diff(&b, &a); !reflect.DeepEqual(got, want) {
		t.Errorf("the other way round %v", got)
	}
	b = filled()
	b.Digests = nil // not taken yet
	if got := Diff(&a, &b); got != nil {
		t.Errorf("digests that were not taken differ: %v", got)
	}
	if got := Diff(&a, &a); got != nil {
		t.Errorf("an environment differs from itself: %v", got)
	}
}

// TestHostIdentity: one machine, one name; another machine, another; the id itself does not appear.
func TestHostIdentity(t *testing.T) {
	f := hosttest.Open(t, "testdata/metal-sgx.txtar")
	first := captured(f).Hardware.Serial
	write(t, f, "etc/machine-id", "0123456789abcdef0123456789abcdef")
	if again := captured(f).Hardware.Serial; again != first || len(first) != 16 {
		t.Errorf("%q, then %q", first, again)
	}
	write(t, f, "etc/machine-id", "0123456789abcdef0123456789abcdee\n")
	e := captured(f)
	if e.Hardware.Serial == first {
		t.Error("two machines have one name")
	}
	if b, err := json.Marshal(e); err != nil || strings.Contains(string(b), "0123456789abcdee") {
		t.Errorf("the machine's id is in the document: %v", err)
	}
}

// TestFingerprintWithoutSecrets: the hashes and differences of environments with secrets are those of what a result records of them.
func TestFingerprintWithoutSecrets(t *testing.T) {
	with := func(secret string) *result.Environment {
		e := filled()
		e.Params = map[string]string{"env": "API_TOKEN=" + secret, "password": secret}
		e.Software.Cmdline = "quiet rd.password=" + secret
		Fingerprint(&e)
		return &e
	}
	a, b, recorded := with("one"), with("two"), with("xxxxx")
	if a.Fingerprint != b.Fingerprint || a.Fingerprint != recorded.Fingerprint || a.Class != b.Class {
		t.Errorf("fingerprints %s, %s and %s, classes %s and %s", a.Fingerprint, b.Fingerprint, recorded.Fingerprint, a.Class, b.Class)
	}
	if d := Diff(a, b); len(d) != 0 {
		t.Errorf("differences %v", d)
	}
}
