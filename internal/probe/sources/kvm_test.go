package sources

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
)

func TestParseMonitor(t *testing.T) {
	const id = "6f1c9d8e-0a5b-4c3d-9e2f-1a2b3c4d5e6f"
	for _, c := range []struct {
		line string
		want virtualMachine
	}{
		{"", virtualMachine{kind: vmUnknown}},
		{"/usr/bin/qemu-system-x86_64 -m 512", virtualMachine{kind: vmPlain}},
		{"qemu-system-x86_64 -uuid " + strings.ToUpper(id) + " -name vm,process=x", virtualMachine{kind: vmPlain, uuid: id, name: "vm"}},
		{"qemu-system-x86_64 --uuid " + id + " --name guest=a,debug-threads=on", virtualMachine{kind: vmPlain, uuid: id, name: "a"}},
		{"qemu-kvm -smbios type=1,uuid=" + id, virtualMachine{kind: vmPlain, uuid: id}},
		{"qemu-kvm -uuid nonsense -object", virtualMachine{kind: vmPlain}},
		{"kvm -object tdx-guest,id=tdx0", virtualMachine{kind: vmTDX}},
		{`qemu-kvm -object {"qom-type":"sev-guest","id":"lsec0","policy":7}`, virtualMachine{kind: vmSEVES}},
		{`qemu-kvm -object {"qom-type":`, virtualMachine{kind: vmUnknown, doubt: `-object {"qom-type":`}},
		{"qemu-kvm -object qom-type=sev-guest,policy=0x1", virtualMachine{kind: vmSEV}},
		{"qemu-kvm -object sev-snp-guest,id=a -object memory-backend-memfd,id=ram", virtualMachine{kind: vmSEVSNP}},
		{"qemu-kvm -qmp unix:/run/a,server -qmp tcp:localhost:1 -chardev socket,id=m,path=/run/b -mon chardev=m,mode=control -chardev socket,id=n,path=/run/c -mon n", virtualMachine{kind: vmPlain, sockets: []string{"/run/a", "/run/b"}}},
		{"cloud-hypervisor --platform sev_snp=on,uuid=" + id, virtualMachine{kind: vmSEVSNP, uuid: id}},
		{"cloud-hypervisor --platform=num_pci_segments=1", virtualMachine{kind: vmUnknown}},
		{"cloud-hypervisor --platform tdx=true", virtualMachine{kind: vmTDX}},
		{"cloud-hypervisor --platform tdx=quantum", virtualMachine{kind: vmUnknown, doubt: "tdx=quantum"}},
		{"firecracker --id=fn", virtualMachine{kind: vmPlain, name: "fn"}},
		{"firecracker-v1.7.0-x86_64 --id fn", virtualMachine{kind: vmPlain, name: "fn"}},
		{"firecracker-snp --id fn", virtualMachine{kind: vmUnknown, name: "fn"}}, // not one of Firecracker's releases
		{"crosvm run --cpus 2", virtualMachine{kind: vmPlain}},
		{"crosvm run --protected-vm", virtualMachine{kind: vmPKVM}},
		{"crosvm run --protected-vm-without-firmware --cpus 2", virtualMachine{kind: vmPKVM}},
		{"crosvm run --cfg vm.json", virtualMachine{kind: vmUnknown, doubt: "-cfg vm.json"}},
		{"qemu-kvm -machine q35 -machine confidential-guest-support=a -object tdx-guest,id=a -object sev-guest,id=b", virtualMachine{kind: vmTDX}},
		{"qemu-kvm -M q35,memory-encryption=b -object tdx-guest,id=a -object sev-guest,id=b,policy=5", virtualMachine{kind: vmSEVES}},
		{`qemu-kvm -machine {"type":"q35","confidential-guest-support":"a"} -object rme-guest,id=a`, virtualMachine{kind: vmCCA}},
		{"qemu-kvm -machine q35,confidential-guest-support=a -object quantum-guest,id=a", virtualMachine{kind: vmUnknown, doubt: "quantum-guest"}},
		{"qemu-kvm -machine q35,confidential-guest-support=a -object iothread,id=b", virtualMachine{kind: vmUnknown, doubt: "confidential-guest-support=a"}},
		{"qemu-kvm -machine q35,confidential-guest-support=a", virtualMachine{kind: vmUnknown, doubt: "confidential-guest-support=a"}},
		{"qemu-kvm -object quantum-guest,id=a", virtualMachine{kind: vmPlain}}, // the machine does not use it
		{"qemu-kvm -object sev-guest,id=a,policy=much", virtualMachine{kind: vmUnknown, doubt: "policy=much"}},
		{"qemu-kvm -readconfig vm.cfg", virtualMachine{kind: vmUnknown, doubt: "-readconfig vm.cfg"}},
		{"qemu-kvm -readconfig vm.cfg -object tdx-guest,id=a", virtualMachine{kind: vmTDX}},
		{"qemu-system-s390x -machine s390-ccw-virtio-9.1,accel=kvm", virtualMachine{kind: vmUnknown}}, // the guest decides
		{"qemu-kvm -machine s390-ccw-virtio,confidential-guest-support=a -object s390-pv-guest,id=a", virtualMachine{kind: vmS390PV}},
		{"qemu-system-ppc64 -machine pseries,confidential-guest-support=a -object pef-guest,id=a", virtualMachine{kind: vmPEF}},
		{"qemu-kvm -name guest=web,,blue,,,debug-threads=on", virtualMachine{kind: vmPlain, name: "web,blue,"}},
		{"qemu-kvm -name web,,blue,process=x -chardev socket,id=m,path=/run/a,,b -mon m,mode=control", virtualMachine{kind: vmPlain, name: "web,blue", sockets: []string{"/run/a,b"}}},
		{"/opt/vmm --guest x", virtualMachine{kind: vmUnknown}},
	} {
		got := parseMonitor(strings.Split(c.line, " "))
		c.want.monitor = filepath.Base(strings.Split(c.line, " ")[0])
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s\n got %+v\nwant %+v", c.line, *got, c.want)
		}
	}
}

// TestPlainOnly: what no option says is plain only where KVM is known to start no protected machine.
func TestPlainOnly(t *testing.T) {
	for _, c := range []struct {
		x86   bool
		files string
		want  bool
	}{
		{true, "", false}, // sysfs is not mounted
		{true, "kernel/x=1", true},
		{true, "module/kvm_intel/parameters/nested=Y", true}, // before Linux 6.16
		{true, "module/kvm_intel/parameters/tdx=N", true},
		{true, "module/kvm_intel/parameters/tdx=Y", false},
		{true, "module/kvm_intel/parameters/tdx=quantum", false},
		{true, "module/kvm_intel/parameters/tdx/x=", false}, // it cannot be read
		{true, "module/kvm_amd/parameters/sev=0 module/kvm_amd/parameters/sev_es=0", true},
		{true, "module/kvm_amd/parameters/sev=N module/kvm_amd/parameters/sev_es=N module/kvm_amd/parameters/sev_snp=Y", false},
		{false, "kernel/x=1", false}, // an Arm host may start realms
		{false, "firmware/uv/prot_virt_host=1", false},
		{false, "firmware/uv/prot_virt_host=0", true},
	} {
		h := *host.Local()
		h.Root = t.TempDir()
		h.CPUID = func(uint32, uint32) (a, b, cx, d uint32) {
			if c.x86 {
				b = 0x756e6547
			}
			return 0, b, 0, 0
		}
		for _, file := range strings.Fields(c.files) {
			name, text, _ := strings.Cut(file, "=")
			name = filepath.Join(h.Root, "sys", name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text+"\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if got := plainOnly(&h); got != c.want {
			t.Errorf("x86 %v, %s: %v, want %v", c.x86, c.files, got, c.want)
		}
	}
}

func FuzzParseMonitor(f *testing.F) {
	f.Add("qemu-kvm\x00-object\x00{\"qom-type\":\"sev-guest\"}\x00-uuid")
	f.Add("cloud-hypervisor\x00--platform=tdx=on\x00-name\x00=,=,")
	f.Fuzz(func(t *testing.T, cmdline string) {
		m := parseMonitor(strings.Split(cmdline, "\x00"))
		if m.kind == "" || m.uuid != strings.ToLower(m.uuid) {
			t.Errorf("%q: kind %q, UUID %q", cmdline, m.kind, m.uuid)
		}
	})
}

// recordedStats are the binary statistics of a fixture.
func recordedStats(f testing.TB) (out [][]byte) {
	f.Helper()
	a, err := txtar.ParseFile("testdata/vm-lockdown.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range a.Files {
		if !strings.HasPrefix(file.Name, "fd/") {
			continue
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(string(file.Data)), ""))
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func TestParseStats(t *testing.T) {
	recorded := recordedStats(t)
	for i, want := range []struct {
		id, name string
		n        int
		value    uint64
	}{{"kvm-", "remote_tlb_flush", 16, 0}, {"/vcpu-0", "exits", 44, 101}} {
		id, stats, err := parseStats(recorded[i])
		if err != nil || !strings.Contains(id, want.id) || len(stats) != want.n || stats[want.name] != want.value {
			t.Errorf("id %q, %d statistics with %s %d, %v; want id %s, %d with %d", id, len(stats), want.name, stats[want.name], err, want.id, want.n, want.value)
		}
		for cut := range recorded[i] {
			if _, _, err := parseStats(recorded[i][:cut]); err == nil && cut < len(recorded[i])-8 {
				t.Errorf("statistics cut to %d of %d bytes are taken as whole", cut, len(recorded[i]))
				break
			}
		}
	}
}

func FuzzParseStats(f *testing.F) {
	for _, b := range recordedStats(f) {
		f.Add(b)
	}
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, b []byte) { _, _, _ = parseStats(b) })
}

// oneSided is a socket whose other side sends nothing more.
type oneSided struct{ io.Reader }

func (oneSided) Write(b []byte) (int, error) { return len(b), nil }

func TestQMP(t *testing.T) {
	const hello = `{"QMP": {}}` + "\n"
	for said, want := range map[string]string{
		"":          "greeting",
		`{"id": 1}`: "does not speak QMP",
		`SSH-2.0`:   "greeting",
		hello:       "read answer",
		hello + `{"return": {}}{"error": {"class": "CommandNotFound", "desc": "no query-stats"}}`:                                                               "CommandNotFound: no query-stats",
		hello + `{"return": {}}{"return": 7}`:                                                                                                                   "parse statistics",
		hello + `{"event": "STOP"}{"return": {}}{"return": []}{"event": "X"}{"return": [{"stats": [{"name": "exits", "value": 3}]}]}`:                           "",
		hello + `{"return": {}}{"return": []}{"return": [{"stats": [{"name": "a", "value": -1}, {"name": "b", "value": [1]}, {"name": "exits", "value": 3}]}]}`: "",
		// One that is no count of one CPU has no sum, and the others have.
		hello + `{"return": {}}{"return": []}{"return": [{"stats": [{"name": "hypercalls", "value": 1}]}, {"stats": [{"name": "hypercalls", "value": -1}, {"name": "exits", "value": 3}]}]}`:     `statistic hypercalls: "-1" is not a count`,
		hello + `{"return": {}}{"return": [{"stats": [{"name": "hypercalls", "value": 18446744073709551615}]}]}{"return": [{"stats": [{"name": "hypercalls"}, {"name": "exits", "value": 3}]}]}`: `statistic hypercalls: "18446744073709551615" is not a count`,
	} {
		got, err := askQMP(oneSided{strings.NewReader(said)})
		switch {
		case (want == "" || strings.HasPrefix(want, "statistic")) && !reflect.DeepEqual(got, map[string]uint64{"exits": 3}):
			t.Errorf("%s: %v, %v", said, got, err)
		case want == "" && err != nil:
			t.Errorf("%s: %v, %v", said, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", said, err, want)
		}
	}
}

func FuzzQMP(f *testing.F) {
	f.Add(`{"QMP": {}}{"return": {}}{"return": []}{"return": [{"stats": [{"name": "exits", "value": 3}]}]}`)
	f.Fuzz(func(t *testing.T, said string) { _, _ = askQMP(oneSided{strings.NewReader(said)}) })
}

func FuzzParseMisc(f *testing.F) {
	f.Add("sev 1\nsev_es max\n")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseMisc("misc.current", []byte(s))
		if err == nil && strings.Count(strings.TrimSpace(s), "\n")+1 < len(got) {
			t.Errorf("%q: more values than lines", s)
		}
	})
}

// TestKVMLoadedLater opens the source while the module is not loaded; a later round finds it.
func TestKVMLoadedLater(t *testing.T) {
	f := hosttest.Open(t, "testdata/kvm-latency.txtar")
	f.RemoveDuring(t, "dev/kvm", func() {
		r, err := kvm.Open(f.Host, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.(probe.Adjustable).Adjust("latency", probe.Scope{}); err != nil {
			t.Fatal(err)
		}
		silent := func(x metric.Sample) { t.Errorf("%s is emitted without KVM", x.Desc.Name) }
		if err := r.Read(t.Context(), silent); err == nil || !strings.Contains(probe.Remedy(err), "kvm_intel") {
			t.Errorf("without the module: %v (%s)", err, probe.Remedy(err))
		}
		if err := f.Host.Install("/dev/kvm", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		seen := map[*metric.Desc]bool{}
		if err := r.Read(t.Context(), func(x metric.Sample) { seen[x.Desc] = true }); err != nil || !seen[vmExits] || !seen[vmAway] {
			t.Errorf("with the module: %v, exits shown %v, times shown %v", err, seen[vmExits], seen[vmAway])
		}
	})
}

// TestLocalVM runs a machine in this process and checks that it is found, by its open files or
// in debugfs, and that its statistics are KVM's.
func TestLocalVM(t *testing.T) {
	v := hosttest.NewTinyVM(t)
	v.Stats(t)
	r, err := kvm.Open(host.Local(), nil)
	if err != nil {
		t.Fatalf("%v (%s)", err, probe.Remedy(err))
	}
	defer r.Close()
	v.Enter(t, 100)
	id := fmt.Sprintf("pid-%d", os.Getpid())
	got := values(t, &vm)
	exits := fmt.Sprintf(`tee_vm_kvm_events_total[%q "plain" "exits"]`, id)
	if got[exits] < 100 {
		t.Errorf("KVM's own statistics have %v exits, want at least 100 (%v)", got[exits], got)
	}
	if got[`tee_vms["plain"]`] < 1 {
		t.Errorf("no machine is counted: %v", got)
	}
	counted := map[string]float64{}
	err = r.Read(t.Context(), func(x metric.Sample) { counted[fmt.Sprintf("%s%q", x.Desc.Name, x.Labels)] = x.Value })
	if n := counted[fmt.Sprintf(`tee_vm_userspace_exits_total[%q "plain" "io"]`, id)]; n != 100 {
		t.Errorf("%v returns to user space for I/O were counted, want 100 (%v)", n, counted)
	}
	hardware := false
	for series := range counted {
		hardware = hardware || strings.HasPrefix(series, "tee_vm_exits_total") && strings.Contains(series, id)
	}
	if silent := err != nil && strings.Contains(err.Error(), "does not report the exits of machine "+id); silent == hardware {
		t.Errorf("exits of the machine are shown: %v; said to be silent: %v (%v)", hardware, silent, err)
	}
	t.Logf("reported by the hardware: %v; %v", hardware, err)
}

// TestKVMTells: the programs of both objects say that they have spent what they may, also where KVM is not loaded yet and nothing is
// spent.
func TestKVMTells(t *testing.T) {
	f := hosttest.Open(t, "testdata/kvm-latency.txtar")
	f.RemoveDuring(t, "dev/kvm", func() {
		r, err := kvm.Open(f.Host, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if !r.(probe.Governed).Limit([]float64{0}, func() { t.Error("something was spent without KVM") }) {
			t.Error("without KVM it has to be asked")
		}
	})

	v := hosttest.NewTinyVM(t)
	r, err := kvm.Open(host.Local(), nil)
	if err != nil {
		t.Fatalf("%v (%s)", err, probe.Remedy(err))
	}
	defer r.Close()
	if err := r.(probe.Adjustable).Adjust("latency", probe.Scope{}); err != nil {
		t.Fatal(err)
	}
	v.Enter(t, 10) // faults of the first instructions
	g := r.(probe.Governed)
	var reached atomic.Int64
	limit := func(more float64) {
		_, most := g.Spent()
		for cpu := range most {
			most[cpu] += more
		}
		if !g.Limit(most, func() { reached.Add(1) }) {
			t.Fatal("it has to be asked for what it has spent")
		}
	}
	limit(1e9)
	v.Enter(t, 100)
	if n := reached.Load(); n != 0 {
		t.Errorf("it said %d times that all was spent, and nearly nothing was", n)
	}
	limit(0)
	await.Event(t, "it says that all is spent", func() error {
		v.Enter(t, 10)
		if reached.Load() == 0 {
			return errors.New("it did not")
		}
		return nil
	})
}

// TestNamedSockets: sockets named by the user belong to the machine.
func TestNamedSockets(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"run/q/web.qmp", "run/q/7.qmp", "run/q/db.qmp"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &vmReader{host: host.At(root)}
	if err := r.Follow([]string{"/run/q/{name}.qmp", "/run/q/{pid}.qmp", "/run/q/{uuid}.qmp"}); err != nil {
		t.Fatal(err)
	}
	m := &virtualMachine{pid: 7, name: "web", uuid: "none", sockets: []string{"/own"}}
	if got := r.socketsOf(m); !slices.Equal(got, []string{"/own", "/run/q/web.qmp", "/run/q/7.qmp"}) {
		t.Errorf("sockets %q", got)
	}
	m = &virtualMachine{pid: 8, name: "../q/db"}
	if got := r.socketsOf(m); len(got) != 0 {
		t.Errorf("a machine's name leads to %q", got)
	}
}
