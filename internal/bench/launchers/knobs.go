package launchers

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
)

// What people set to make I/O and wake-ups of a guest cheaper, each a parameter of its own, so that arms can differ in one.

// Of the kernel's pool of bounce buffers (include/linux/swiotlb.h): IO_TLB_SIZE, the IO_TLB_SEGSIZE slots that each of its areas
// has at least, and IO_TLB_DEFAULT_SIZE.
const (
	bounceSlot    = 2 << 10
	bounceSegment = 128 * bounceSlot
	bounceDefault = 64 << 20
)

// knobParams checks the parameters without looking at the machine.
func knobParams(p bench.Params) error {
	cpus, _ := p.Int("cpus", 1) // qemuParams reports what is wrong
	return errors.Join(bounceParams(p, cpus), queueParams(p, cpus), pageParams(p))
}

func bounceParams(p bench.Params, cpus int64) error {
	if p["bounce-pool"] == "" {
		if p["bounce-areas"] != "" {
			return errors.New("parameter bounce-areas: needs bounce-pool, the size that the areas share")
		}
		return nil
	}
	pool, err := p.Bytes("bounce-pool")
	switch {
	case err != nil:
		return err
	case pool < bounceSegment || bits.OnesCount64(uint64(pool)) != 1:
		return fmt.Errorf("parameter bounce-pool=%q: want a power of two of at least 256KiB; the kernel would round other sizes up", p["bounce-pool"])
	case p["bounce"] == "off" && p["cvm"] == "none":
		return errors.New("parameter bounce-pool: without bounce=on or cvm, nothing uses the pool")
	case p["cvm"] != "none" && pool == bounceDefault: // swiotlb_adjust_size in kernel/dma/swiotlb.c
		return fmt.Errorf("parameter bounce-pool=%s: a confidential guest's kernel treats this default size as not given, and chooses its own size; use another size", p["bounce-pool"])
	}
	areas := int64(1) << bits.Len64(uint64(max(cpus, 1)-1)) // the kernel's own number
	if p["bounce-areas"] != "" {
		given, err := p.Int("bounce-areas", 1)
		switch {
		case err != nil:
			return err
		case bits.OnesCount64(uint64(given)) != 1 || given > areas:
			return fmt.Errorf("parameter bounce-areas=%d: want a power of two, and not more areas than cpus=%d uses", given, cpus)
		}
		areas = given
	}
	if pool/areas < bounceSegment {
		return fmt.Errorf("parameter bounce-pool=%s: too small for %d areas; each area has at least 256KiB", p["bounce-pool"], areas)
	}
	return nil
}

func queueParams(p bench.Params, cpus int64) error {
	if p["queues"] == "" {
		return nil
	}
	n, err := p.Int("queues", 1)
	switch {
	case err != nil:
		return err
	case n > cpus:
		return fmt.Errorf("parameter queues=%d: a guest uses at most one queue per CPU, and cpus=%d", n, cpus)
	case p["disk"] == "" && p["image"] == "" && !onTap(p):
		return errors.New("parameter queues: the guest has neither a disk nor a network with a tap (net=tap or net=vhost); QEMU's own network has one queue")
	}
	return nil
}

// pageSizes are the sizes of huge pages, with QEMU's name.
var pageSizes = map[string]struct {
	bytes int64
	name  string
}{"2MiB": {2 << 20, "2M"}, "1GiB": {1 << 30, "1G"}}

func pageParams(p bench.Params) error {
	size, huge := pageSizes[p["pages"]]
	memory, err := p.Bytes("memory")
	switch {
	case err != nil: // reported by qemuParams
	case p["pages"] != "auto" && p["cvm"] != "none":
		return fmt.Errorf("parameter pages=%s: the kernel provides a confidential guest's private memory (guest_memfd) and chooses its page size", p["pages"])
	case huge && memory%size.bytes != 0:
		return fmt.Errorf("parameter memory=%s: want a multiple of pages=%s", p["memory"], p["pages"])
	}
	return nil
}

// knobNeeds lists what this machine and the guest's kernel must have.
func knobNeeds(h *host.Host, p bench.Params, kernel string) (needs []need) {
	if onTap(p) {
		needs = append(needs, need{Command: "ip", Hint: "package iproute2"}, need{Path: "/dev/net/tun", Hint: "the kernel module tun, and root to make a tap"})
	}
	if p["net"] == netVhost {
		needs = append(needs, need{Path: "/dev/vhost-net", Hint: "the kernel module vhost_net, or net=tap, which leaves the packets to QEMU"})
	}
	if size, huge := pageSizes[p["pages"]]; huge {
		memory, _ := p.Bytes("memory") // qemuParams has checked it
		folder := fmt.Sprintf("/sys/kernel/mm/hugepages/hugepages-%dkB", size.bytes>>10)
		want := memory / size.bytes
		if free, err := h.ReadUint(path.Join(folder, "free_hugepages")); err != nil || free < uint64(want) {
			needs = append(needs, need{Path: fmt.Sprintf("%s/free_hugepages of %d or more", folder, want),
				Hint: fmt.Sprintf("for this environment alone: echo %d >%s/nr_hugepages, or hugepages= at boot", want, folder)})
		}
	}
	if p["pages"] == "4KiB" {
		const shmem = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
		if text, err := h.ReadString(shmem); err == nil {
			if mode, _ := machine.Chosen(text); mode != "never" && mode != "deny" {
				needs = append(needs, need{Path: shmem + "=never", Hint: "the setting is " + mode + ", so the guest's memory would get huge pages"})
			}
		}
	}
	if p["idle"] == "haltpoll" && p["accel"] == "auto" {
		if why := noKVM(h); why != "" {
			needs = append(needs, need{Path: "KVM for idle=haltpoll", Hint: why})
		}
	}
	if kernel != bootImages && (p["bounce-areas"] != "" || p["idle"] == "haltpoll") {
		needs = append(needs, kernelNeeds(h, p, kernel)...)
	}
	return needs
}

// kernelNeeds lists what the guest's kernel must have; without it, it would ignore a parameter silently.
func kernelNeeds(h *host.Host, p bench.Params, kernel string) (needs []need) {
	folder, err := modulesOf(kernel)
	if err != nil {
		return []need{{Path: "a kernel with a name like vmlinuz-RELEASE", Hint: "the release shows whether the kernel supports bounce-areas and idle=haltpoll"}}
	}
	if p["bounce-areas"] != "" && byRelease(path.Base(folder), "6.0") < 0 {
		needs = append(needs, need{Path: "a guest's kernel from 6.0 on", Hint: "an older kernel has no areas, and would ignore bounce=on (swiotlb=force)"})
	}
	builtin, err := h.ReadString(path.Join(folder, "modules.builtin"))
	if p["idle"] == "haltpoll" && (err != nil || !strings.Contains(builtin, "/cpuidle-haltpoll.ko")) {
		needs = append(needs, need{Path: "cpuidle-haltpoll in " + path.Join(folder, "modules.builtin"), Hint: "use a guest kernel with CONFIG_HALTPOLL_CPUIDLE=y; a module would not get its parameter"})
	}
	return needs
}

// knobWords are the words of the guest's kernel command line (Documentation/admin-guide/kernel-parameters.txt).
func knobWords(p bench.Params) (words []string) {
	var pool []string
	if size, err := p.Bytes("bounce-pool"); err == nil {
		pool = append(pool, strconv.FormatInt(size/bounceSlot, 10))
	}
	if p["bounce-areas"] != "" {
		pool = append(pool, p["bounce-areas"])
	}
	if p["bounce"] == "on" {
		pool = append(pool, "force")
	}
	if pool != nil {
		words = append(words, "swiotlb="+strings.Join(pool, ","))
	}
	switch p["idle"] {
	case "haltpoll":
		words = append(words, "cpuidle_haltpoll.force=1")
	case "poll":
		words = append(words, "idle=poll")
	}
	return words
}

// queues returns the options for the number of queues of a disk, of a tap and of the card on it. A card has two interrupts
// for each pair of queues, one for its control queue and one for changes of its configuration.
func queues(p bench.Params) (disk, netdev, card string) {
	n, err := p.Int("queues", 1)
	if err != nil { // QEMU's own number
		return "", "", ""
	}
	disk = fmt.Sprintf(",num-queues=%d", n)
	if n > 1 {
		netdev, card = fmt.Sprintf(",queues=%d", n), fmt.Sprintf(",mq=on,vectors=%d", 2*n+2)
	}
	return disk, netdev, card
}

// backend returns the object behind the guest's memory; "" is QEMU's own, and an SEV-SNP guest declares its memory itself.
// QEMU asks for transparent huge pages under anonymous memory; shared memory has them only where shmem_enabled says so.
func backend(p bench.Params, bytes int64) string {
	switch size, huge := pageSizes[p["pages"]]; {
	case huge:
		return fmt.Sprintf("memory-backend-memfd,id=ram,size=%d,share=on,hugetlb=on,hugetlbsize=%s,prealloc=%s", bytes, size.name, p["prealloc"])
	case p["pages"] == "4KiB":
		return fmt.Sprintf("memory-backend-memfd,id=ram,size=%d,share=on,prealloc=%s", bytes, p["prealloc"])
	case p["prealloc"] == "on" && p["cvm"] != "snp":
		return fmt.Sprintf("memory-backend-ram,id=ram,size=%d,prealloc=on", bytes)
	}
	return ""
}

// onTap reports whether the guest's network is a tap interface of this machine.
func onTap(p bench.Params) bool { return p["net"] == netTap || p["net"] == netVhost }

// tapNet is the number of a net of 256 addresses below 198.18.0.0/15, which RFC 2544 sets aside for benchmarks. QEMU makes the
// interface, and the kernel removes it when QEMU ends, however it ends.
type tapNet int

const tapNets = 512

func (n tapNet) at(last int) string {
	return fmt.Sprintf("198.%d.%d.%d", 18+int(n)>>8, int(n)&255, last)
}
func (n tapNet) host() string  { return n.at(1) }
func (n tapNet) guest() string { return n.at(2) }
func (n tapNet) name() string  { return fmt.Sprintf("teescope%d", int(n)) }

// freeNet returns the first net to which this machine has no route but those to far more than 198.18.0.0/15 (a default one, or
// the halves by which VPNs replace it), and whose interface nobody has: one that QEMU has just made has no route yet.
func freeNet(h *host.Host) (tapNet, error) {
	const table = "/proc/net/route"
	text, err := h.ReadString(table)
	if err != nil {
		return 0, fmt.Errorf("find free addresses for the guest's network: %w", err)
	}
	type route struct{ to, mask uint32 }
	var routes []route
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 7 {
			to, err := strconv.ParseUint(f[1], 16, 32)
			mask, err2 := strconv.ParseUint(f[7], 16, 32)
			// The kernel prints addresses as numbers of this machine's byte order, here the lowest byte first.
			r := route{bits.ReverseBytes32(uint32(to)), bits.ReverseBytes32(uint32(mask))}
			if err == nil && err2 == nil && r.mask >= 0xfffe0000 {
				routes = append(routes, r)
			}
		}
	}
	for n := range tapNet(tapNets) {
		at := uint32(198<<24 | (18+int(n)>>8)<<16 | int(n)&255<<8)
		taken := slices.ContainsFunc(routes, func(r route) bool {
			both := r.mask & 0xffffff00
			return r.to&both == at&both
		})
		if there, _ := h.Exists("/sys/class/net/" + n.name()); !taken && !there {
			return n, nil
		}
	}
	return 0, fmt.Errorf("find free addresses for the guest's network: %s has routes to all of 198.18.0.0/15", table)
}

// commands give the interface its address, once QEMU has made it.
func (n tapNet) commands() []host.Cmd {
	return []host.Cmd{
		{Argv: []string{"ip", "address", "add", n.host() + "/24", "dev", n.name()}},
		{Argv: []string{"ip", "link", "set", n.name(), "up"}},
	}
}

func (n tapNet) create(ctx context.Context, h *host.Host) error {
	for _, c := range n.commands() {
		if out, err := h.Exec(ctx, c); err != nil {
			return fmt.Errorf("set up the guest's network: %w%s", err, lastWords(out))
		}
	}
	return nil
}
