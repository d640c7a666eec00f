package rules

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/findings"
)

// comparisons are the rules that only compare queries with limits. A new one is a value
// here and its fixtures.
var comparisons = []comparison{
	{
		Rule: findings.Rule{
			Name:  "enclave_churn",
			Title: "Enclave churn",
			Topic: enclaveMemoryFull,
			Role:  findings.RoleEffect,
			Doc: "At least one enclave is created every 10 seconds, over each window and over its newest half minute, and enclaves live for less than 30 seconds on average. The average life is the number of enclaves divided by the number created per second (Little's law). Creating an enclave copies and measures each of its pages, " +
				"so the start can take longer than the work.",
			Needs: []string{pagesAdded, "tee_sgx_enclaves"},
			Thresholds: []findings.Threshold{
				{Name: "made", Doc: "enclaves created", Unit: "1/s", Default: 0.1},
				{Name: "life", Doc: "upper limit of the average life of an enclave", Unit: "seconds", Default: 30},
			},
			Remedy: "Reuse enclaves: use a pool, or a server instead of one program for each task. Make enclaves that must start small: use a smaller heap, " +
				"or one that grows (SGX2: sgx.edmm_enable in Gramine, a small HeapInitSize in the Intel SDK).",
			// Intel states there that an enclave with a heap of 1 GB takes several seconds to start.
			Reference: "https://www.intel.com/content/www/us/en/support/articles/000089477/software/development-software.html",
		},
		signs: []sign{{
			value: enclavesMade("sum by (job, instance)"), least: "made",
			subject: machine, of: pagesAdded,
			numbers: []number{
				{name: "rate", text: "enclaves created", unit: "1/s", expr: enclavesMade("sum"), over: last},
				{name: "mean", text: "enclaves created", unit: "1/s", expr: enclavesMade("sum"), over: whole},
				{name: "alive", text: "enclaves that exist", expr: "avg_over_time(tee_sgx_enclaves{$here}[$over])", over: whole},
				{name: "life", text: "average life of an enclave", unit: "seconds",
					expr: "sum(avg_over_time(tee_sgx_enclaves{$here}[$window])) / " + takenOver(enclavesMade("sum"), whole)},
			},
			cases: []outcome{{
				when:     []limit{{numbers: "rate mean", threshold: "made"}, {numbers: "life", op: "<", threshold: "life"}},
				severity: findings.Warning,
				titles:   []string{"{rate} enclaves a second are created on the {subject} and live for {life} on average."},
				costs:    []string{"{added} are copied into the EPC and measured: {each} for each enclave. Intel states several seconds for 1 GB (from literature, not measured here)."},
			}},
			details: []number{
				{name: "added", text: "EPC memory filled for new enclaves", unit: "bytes/s", expr: fmt.Sprintf("sum(rate(%s{$here}[$window])) * 4096", pagesAdded)},
				{name: "each", unit: "bytes", derived: func(of func(string) float64) float64 { return of("added") / of("mean") }},
			},
		}},
	},
	{
		Rule: findings.Rule{
			Name:  "bounce_buffers",
			Title: "Bounce buffers run out",
			Topic: sharedMemoryShort,
			Role:  findings.RoleCause,
			Doc: "At least 70 % of the bounce buffer pool (SWIOTLB), which carries all I/O of a confidential VM, was in use at a reading of the last half minute, or a mapping did not fit. A mapping needs adjacent slots, so it can fail long before the pool is full. I/O then waits or fails. " +
				"A finding about a pool that was 90 % full at any time since boot is for information only.",
			Needs: []string{poolSize, poolUsed},
			Thresholds: []findings.Threshold{
				{Name: "used", Doc: "share of the pool that is in use", Unit: "ratio", Default: 0.7},
				{Name: "high_water", Doc: "largest share of the pool in use since boot", Unit: "ratio", Default: 0.9},
				{Name: "failures", Doc: "mappings that did not fit", Unit: "1/s", Default: 0.001},
			},
			Remedy:    causes.BounceBuffers.Remedy,
			Reference: "https://docs.kernel.org/core-api/swiotlb.html",
		},
		signs: []sign{{
			where: "(max by (job, instance) (max_over_time(" + poolUsed + "[$newest])) / max by (job, instance) (" + poolSize + ") >= $used" +
				" or max by (job, instance) (tee_swiotlb_used_max_bytes) / max by (job, instance) (" + poolSize + ") >= $high_water" +
				" or sum by (job, instance) (rate(tee_swiotlb_mapping_failures_total[$newest])) >= $failures)" +
				" and sum by (job, instance) (" + poolSize + ") > 0",
			subject: machine, of: poolSize,
			numbers: []number{
				{name: "used", text: "largest share of the pool in use at a reading of the last $newest", unit: "ratio",
					expr: "max(max_over_time(" + poolUsed + "{$here}[$newest])) / max(" + poolSize + "{$here})"},
				{name: "mark", text: "largest share of the pool in use since boot, as the kernel recorded it", unit: "ratio",
					expr: "max(tee_swiotlb_used_max_bytes{$here}) / max(" + poolSize + "{$here})"},
				{name: "size", text: "size of the pool", unit: "bytes", expr: "max(" + poolSize + "{$here})"},
				{name: "failures", text: "mappings that did not fit", unit: "1/s", expr: "sum($rate(tee_swiotlb_mapping_failures_total{$here}))", over: last},
				{name: "free", unit: "bytes", derived: func(of func(string) float64) float64 { return (1 - of("used")) * of("size") }},
			},
			cases: []outcome{
				{
					when:     []limit{{numbers: "failures", threshold: "failures"}},
					severity: findings.Critical,
					titles:   []string{"{failures} mappings a second do not fit into the {subject}'s bounce buffers of {size}: I/O waits or fails."},
					costs:    []string{"{failures} requests a second to disks or networks are delayed or lost (measured)."},
				},
				{
					when:     []limit{{numbers: "used", threshold: "used"}},
					severity: findings.Warning,
					titles:   []string{"The {subject} uses {used} of its {size} of bounce buffers."},
					costs:    []string{"Nothing is lost yet; I/O waits or fails once another {free} are in flight.", "Nothing is lost yet; I/O waits or fails beyond 100 %."},
				},
				{
					when:     []limit{{numbers: "mark", threshold: "high_water"}},
					severity: findings.Info,
					titles:   []string{"The {subject}'s bounce buffers were {mark} full at some time since boot."},
				},
			},
			details: []number{{text: "bytes that need bounce buffers", unit: "bytes/s", expr: "sum(rate(" + bounced + "{$here}[$newest]))"}},
		}},
	},
	{
		Rule: findings.Rule{
			Name:  "bounced_io",
			Title: "I/O through bounce buffers",
			Topic: sharedMemoryShort,
			Role:  findings.RoleEffect,
			Doc: "At least 100 MB a second pass through bounce buffers, over each window and over its newest half minute: the kernel copies each byte once more, because the host's devices " +
				"cannot reach the private memory of a confidential VM. The cost of a copy is calibrated on this machine; at 100 MB a second it is a few percent of a core. " +
				"This is the normal cost of confidential I/O, so the finding is for information only, until the copies alone take 5 % of the CPU time in use.",
			Needs: []string{bounced},
			Thresholds: []findings.Threshold{
				{Name: "bounced", Doc: "bytes that need bounce buffers", Unit: "bytes/s", Default: 100e6},
				{Name: "share", Doc: "share of copies in the CPU time in use, for a warning", Unit: "ratio", Default: 0.05},
			},
			Remedy: causes.BouncedIO.Remedy,
			Reference: "https://docs.kernel.org/core-api/swiotlb.html and Li et al.: Bifrost: Analysis and Optimization of Network I/O Tax in Confidential Virtual Machines (USENIX ATC 2023), " +
				"https://www.usenix.org/conference/atc23/presentation/lidingji",
		},
		signs: []sign{{
			value: "sum by (job, instance) ($rate(" + bounced + "{$here}))", least: "bounced",
			subject: machine, of: bounced, trust: "swiotlb_bounces",
			numbers: []number{
				{name: "rate", text: "bytes that need bounce buffers", unit: "bytes/s", expr: "sum($rate(" + bounced + "{$here}))", over: last},
				{name: "mean", text: "bytes that need bounce buffers", unit: "bytes/s", expr: "sum($rate(" + bounced + "{$here}))", over: whole},
				{text: "bytes of networks and disks in the same time", unit: "bytes/s",
					expr: "(sum(" + counted("node_network_receive_bytes_total", last) + ") + sum(" + counted("node_network_transmit_bytes_total", last) + "))" +
						" + ((sum(" + counted("node_disk_read_bytes_total", last) + ") + sum(" + counted("node_disk_written_bytes_total", last) + ")) or vector(0))"},
				{name: "copy", text: "CPU time of copying these bytes once, at the calibrated cost of a page", unit: "cores", expr: copied("median")},
				{name: "low", text: "share of this copying in all CPU time in use, at the lowest calibrated cost of a page", unit: "ratio", expr: copied("low") + " / " + inUse, after: "copy"},
				{name: "high", text: "share of this copying in all CPU time in use, at the highest calibrated cost of a page", unit: "ratio", expr: copied("high") + " / " + inUse, after: "copy"},
			},
			cases: []outcome{{
				when:     []limit{{numbers: "rate mean", threshold: "bounced"}},
				severity: findings.Info,
				raise:    []limit{{numbers: "low", threshold: "share"}}, raised: findings.Warning,
				titles: []string{"The {subject} copies {rate} of I/O through bounce buffers."},
				costs: []string{
					"At least {copy}: that is what copying each of these bytes once costs, as calibrated on this machine.",
					"The cost of the copies is unknown here. In network servers in confidential VMs, bounce buffers and packets used over 50 % of the CPU cycles (from literature, Bifrost).",
				},
			}},
			share: [2]string{"low", "high"},
		}},
	},
	{
		Rule: findings.Rule{
			Name:  "memory_conversions",
			Title: "Repeated memory conversions",
			Topic: sharedMemoryShort,
			Role:  findings.RoleEffect,
			Doc: "A confidential VM makes memory shared with the hypervisor at least 100 times a second, and makes memory private again as often, over each window and over its newest half minute. " +
				"Each conversion calls the hypervisor, changes page tables of guest and host, and flushes TLBs; buffers that the driver keeps are converted only once. Memory that stays shared does not count.",
			Needs: []string{conversions},
			Thresholds: []findings.Threshold{
				{Name: "conversions", Doc: "conversions in the rarer direction", Unit: "1/s", Default: 100},
				{Name: "share", Doc: "share of conversions in the CPU time in use, for a critical finding", Unit: "ratio", Default: 0.1},
			},
			Remedy:    causes.MemoryConversions.Remedy,
			Reference: tdxDocument + " (shared memory conversions) and https://docs.kernel.org/arch/x86/amd-memory-encryption.html",
		},
		signs: []sign{{
			value: "sum by (job, instance) ($rate(" + conversions + `{$here,direction="to_shared"}))`, least: "conversions",
			where:   " and sum by (job, instance) (rate(" + conversions + `{direction="to_private"}[$newest])) >= $conversions`,
			subject: machine, of: conversions, trust: "conversions",
			numbers: []number{
				{name: "shared_now", text: "conversions to_shared", unit: "1/s", expr: converted("to_shared"), over: last},
				{name: "shared", text: "conversions to_shared", unit: "1/s", expr: converted("to_shared"), over: whole},
				{name: "private_now", text: "conversions to_private", unit: "1/s", expr: converted("to_private"), over: last},
				{name: "private", text: "conversions to_private", unit: "1/s", expr: converted("to_private"), over: whole},
				{name: "rarer", unit: "1/s", derived: func(of func(string) float64) float64 {
					return min(of("shared_now"), of("shared"), of("private_now"), of("private"))
				}},
			},
			cases: []outcome{{
				when:     []limit{{numbers: "rarer", threshold: "conversions"}}, // missing where one direction is not visible
				severity: findings.Warning,
				raise:    []limit{{numbers: "share", threshold: "share"}}, raised: findings.Critical,
				titles: []string{"The {subject} converts memory from private to shared and back {rarer} times a second."},
				costs:  []string{"These conversions between private and shared memory use {time} (measured)."},
			}},
			details: []number{
				{text: "memory converted", unit: "bytes/s", expr: "sum(rate(tee_private_memory_converted_bytes_total{$here}[$newest]))"},
				{name: "time", text: "time in conversions", unit: "cores", expr: "sum(rate(tee_private_memory_conversion_duration_seconds_sum{$here}[$newest]))"},
				{name: "share", text: "this time as a share of all CPU time in use", unit: "ratio",
					expr: "sum(rate(tee_private_memory_conversion_duration_seconds_sum{$here}[$newest])) / " + inUse, after: "time"},
				{text: "failed conversions; the kernel does not use their memory again", unit: "1/s", expr: "sum(rate(tee_private_memory_conversion_failures_total{$here}[$newest]))"},
			},
			share: [2]string{"share", "share"},
		}},
	},
	{
		Rule: findings.Rule{
			Name:  "unaccepted_memory",
			Title: "Memory still being accepted",
			Doc: "This confidential VM accepts at least 16 MiB of memory a second over each window, and has more to accept. A guest accepts memory when it first needs it, " +
				"each time with calls to the hypervisor or to the TDX module, so programs are slower soon after boot than later, and measurements include that. Memory that is never used stays unaccepted and costs nothing.",
			Needs: []string{unaccepted, "tee_memory_accepted_bytes_total"},
			Thresholds: []findings.Threshold{
				{Name: "accepted", Doc: "memory accepted", Unit: "bytes/s", Default: 16 << 20},
			},
			Remedy:    "Wait, or accept all memory before the work begins: boot with accept_memory=eager, or touch all memory once (`stress-ng --vm`, mlock, prealloc of the application).",
			Reference: "https://docs.kernel.org/admin-guide/kernel-parameters.html (accept_memory) and Shutemov: Implement support for unaccepted memory, http://mail.spinics.net/lists/linux-efi/msg23652.html",
		},
		signs: []sign{{
			value: "sum by (job, instance) ($rate(tee_memory_accepted_bytes_total{$here}))", least: "accepted",
			where:   " and sum by (job, instance) (" + unaccepted + ") > 0",
			subject: machine, of: unaccepted,
			numbers: []number{
				{name: "left", text: "memory not accepted yet", unit: "bytes", expr: "sum(" + unaccepted + "{$here})"},
				{name: "rate", text: "memory accepted", unit: "bytes/s", expr: "sum($rate(tee_memory_accepted_bytes_total{$here}))", over: last},
				{name: "mean", text: "memory accepted", unit: "bytes/s", expr: "sum($rate(tee_memory_accepted_bytes_total{$here}))", over: whole},
			},
			cases: []outcome{{
				when:     []limit{{numbers: "rate mean", threshold: "accepted"}},
				severity: findings.Info,
				titles:   []string{"The {subject} is still accepting (taking into use) its memory, at {rate}; {left} are left."},
				costs: []string{
					"Accepting memory uses {time} (measured).",
					"The cost of accepting is unknown here. When acceptance is postponed, guests of 4 GB boot 2.5 times and guests of 64 GB 4 times as fast (from literature); the postponed work happens now.",
				},
			}},
			details: []number{
				{text: "time until all is accepted at this rate", unit: "seconds", expr: "sum(" + unaccepted + "{$here}) / sum(rate(tee_memory_accepted_bytes_total{$here}[$newest]))"},
				{name: "time", text: "time that tasks spend accepting memory", unit: "cores", expr: "sum(rate(tee_memory_acceptance_duration_seconds_sum{$here}[$newest]))"},
				{name: "share", text: "this time as a share of all CPU time in use", unit: "ratio",
					expr: "sum(rate(tee_memory_acceptance_duration_seconds_sum{$here}[$newest])) / " + inUse, after: "time"},
			},
			share: [2]string{"share", "share"},
		}},
	},
	{
		Rule: findings.Rule{
			Name:  "cpu_steal",
			Title: "CPU steal",
			Topic: cpuSaturated,
			Role:  findings.RoleCause,
			Doc: "The host gave at least 5 % of a virtual machine's CPU time to others while the machine wanted to run, over each window and over its newest half minute. " +
				"That exceeds the usual cost of a confidential VM, so results measured during that time say little. " +
				"On bare metal steal is always 0.",
			Needs: []string{"node_cpu_seconds_total"},
			Thresholds: []findings.Threshold{
				{Name: "share", Doc: "share of a machine's CPU time that is stolen", Unit: "ratio", Default: 0.05},
				{Name: "share_critical", Doc: "the same share, for a critical finding", Unit: "ratio", Default: 0.20},
			},
			Remedy: "Check the instance type first: a burstable instance that used up its credits looks the same. " +
				"If it is not burstable, the host is probably overcommitted: ask for dedicated CPUs or another host.",
			Reference: "https://docs.kernel.org/filesystems/proc.html (steal, under /proc/stat)",
		},
		signs: []sign{{
			value: stolen, least: "share",
			subject: machine, of: "node_cpu_seconds_total",
			numbers: []number{
				{name: "stolen", text: "share of CPU time stolen", unit: "ratio", expr: stolen, over: whole, together: true},
				{name: "now", text: "share of CPU time stolen", unit: "ratio", expr: stolen, over: last, together: true},
				{name: "cores", text: "CPU time stolen from all CPUs together", unit: "cores", expr: `sum by (job, instance) ($rate(node_cpu_seconds_total{$here,mode="steal"}))`, over: whole, together: true},
			},
			cases: []outcome{{
				when:     []limit{{numbers: "stolen now", threshold: "share"}},
				severity: findings.Warning,
				raise:    []limit{{numbers: "stolen", threshold: "share_critical"}}, raised: findings.Critical,
				titles: []string{"The {subject} loses {stolen} of its CPU time to its host."},
				costs:  []string{"The {subject} needed {cores} more than it got."},
			}},
			share: [2]string{"stolen", "stolen"}, shareOf: "the machine's CPU time",
		}},
	},
	{
		Rule: findings.Rule{
			Name:  "cpu_throttling",
			Title: "CPU throttling",
			Topic: cpuSaturated,
			Role:  findings.RoleEffect,
			Doc: "A container or unit exhausted its CPU quota in at least 25 % of the scheduling periods in which the group had work, over each window and over its newest half " +
				"minute; this limit is that of Kubernetes' usual alert CPUThrottlingHigh. A share of 75 % is critical. A container or unit with work in less than one period " +
				"a second is left out, because its share says little. Containers and units without a quota are never throttled and show no periods.",
			Needs: []string{cfsPeriods, cfsThrottled},
			Thresholds: []findings.Threshold{
				{Name: "share", Doc: "share of the periods that exhausted the quota", Unit: "ratio", Default: 0.25},
				{Name: "share_critical", Doc: "the same share, for a critical finding", Unit: "ratio", Default: 0.75},
				{Name: "periods", Doc: "periods in which the group had work", Unit: "1/s", Default: 1},
			},
			Remedy: "Raise the quota (resources.limits.cpu, CPUQuota=, cpu.max), or remove it where nobody else needs the CPU. Use as many threads as the quota has cores " +
				"(GOMAXPROCS, -XX:ActiveProcessorCount, worker_processes), because many threads exhaust a period's quota in its first milliseconds. " +
				"A longer period or cpu.max.burst allows short bursts.",
			Reference: "https://docs.kernel.org/scheduler/sched-bwc.html and https://runbooks.prometheus-operator.dev/runbooks/kubernetes/cputhrottlinghigh/",
		},
		signs: []sign{{
			value: throttled, least: "share",
			where: " and rate(" + cfsPeriods + "[$window]) >= $periods",
			keep:  allLabels, subject: groupName, of: cfsPeriods,
			numbers: []number{
				{name: "ran", text: "share of the periods that exhausted the quota", unit: "ratio", expr: throttled, over: whole},
				{name: "now", text: "share of the periods that exhausted the quota", unit: "ratio", expr: throttled, over: last},
				{name: "periods", text: "periods in which the group had work", unit: "1/s", expr: "sum($rate(" + cfsPeriods + "{$here}))", over: whole},
				{name: "stopped", text: "time for which its tasks were stopped in the last $window, summed over CPUs", unit: "seconds", expr: "sum(increase(" + cfsSeconds + "{$here}[$window]))"},
				{text: "CPU time that it used", unit: "cores", expr: "sum($rate(container_cpu_usage_seconds_total{$here}))", over: whole},
				{name: "quota", text: "its quota", unit: "cores", expr: "container_spec_cpu_quota{$here} / container_spec_cpu_period{$here}"},
			},
			cases: []outcome{{
				when:     []limit{{numbers: "ran now", threshold: "share"}, {numbers: "periods", threshold: "periods"}},
				severity: findings.Warning,
				raise:    []limit{{numbers: "ran", threshold: "share_critical"}}, raised: findings.Critical,
				titles: []string{
					"{subject} is throttled in {ran} of its scheduling periods: its quota is {quota}.",
					"{subject} is throttled in {ran} of its scheduling periods.",
				},
				costs: []string{"The tasks of {subject} were stopped for {stopped} in the last $window, summed over CPUs."},
			}},
		}},
	},
	{
		// With redis-benchmark on two threads and redis-server all pinned to one CPU, tasks wait for the CPU 50 to 89
		// % of the time; unpinned on two CPUs, 3 to 42 %. So a CPU below 90 % is well used rather than short. Waiting
		// for memory is always reclaim: systemd-oomd begins to kill at 60 % by default, and users notice 10 %.
		Rule: findings.Rule{
			Name:  "pressure",
			Title: "Machine under pressure",
			Role:  findings.RoleCause,
			Early: 25 * time.Second,
			Doc: "At least one task waits for memory at least 10 % of the time, or for the CPU at least 90 %, according to the kernel's pressure stall information, " +
				"over each window and over its newest half minute. The CPU's limit is high because a busy server and its load generator on one CPU reach 89 %. " +
				"The finding opens early at 50 % (memory) or 95 % (CPU) over the newest 25 s. " +
				"The rule io_saturation covers waiting for I/O.",
			Needs: []string{"node_pressure_memory_waiting_seconds_total", "node_pressure_cpu_waiting_seconds_total"},
			Thresholds: []findings.Threshold{
				{Name: "memory", Doc: "share of time in which a task waits for memory", Unit: "ratio", Default: 0.10, Early: 0.50},
				{Name: "cpu", Doc: "share of time in which a task waits for a CPU", Unit: "ratio", Default: 0.90, Early: 0.95},
			},
			Remedy:    "Take load off the machine, or give the machine more of the resource that is short.",
			Reference: "https://docs.kernel.org/accounting/psi.html",
		},
		signs: []sign{ // the worse one first
			strain("memory", "memory", findings.Critical,
				"Make the working set smaller, raise the limit of the container, or give the VM more memory: pages are reclaimed and read again.", blameMemory),
			strain("cpu", "the CPU", findings.Warning, causes.CPUStarvation.Remedy, blameCPU).withTopic(cpuSaturated),
		},
	},
	{
		Rule: findings.Rule{
			Name:  "network_loss",
			Title: "Network loss",
			Doc:   "One of these holds. (1) A machine that sends at least 100 TCP segments a second retransmits at least 1 % of them. (2) Its network devices drop at least 1 % of the packets and 10 a second. (3) A listening socket refuses at least one connection a second because its queue is full. (4) At least half of the connections and 50 a second end in a reset; this finding is for information only. This must hold over each window and over its newest half minute. At a loss of 1 % a TCP connection keeps about 12 segments in flight, however fast the network is (Mathis and others, 1997). Counters are those of the monitor's network namespace. Counters of devices are the sum over the devices that `tee_network_device_counted` marks, or those of one other device with more drops, such as a tunnel whose queue overflows. The loopback is left out. The share of drops is drops divided by packets plus drops, because an unsent packet is counted as a drop only.",
			Needs: []string{tcpAgain, tcpOut},
			Thresholds: []findings.Threshold{
				{Name: "retransmits", Doc: "share of the TCP segments sent again", Unit: "ratio", Default: 0.01},
				{Name: "segments", Doc: "TCP segments sent; below this rate the share says little", Unit: "1/s", Default: 100},
				{Name: "drops", Doc: "share of the packets that network devices drop", Unit: "ratio", Default: 0.01},
				{Name: "dropped", Doc: "packets dropped; below this rate the share says little", Unit: "1/s", Default: 10},
				{Name: "refused", Doc: "connections refused by full queues", Unit: "1/s", Default: 1},
				{Name: "resets", Doc: "share of the connections that end in a reset", Unit: "ratio", Default: 0.5},
				{Name: "reset", Doc: "connections reset; below this rate the share says little", Unit: "1/s", Default: 50},
			},
			Remedy: whereLost,
			Reference: "https://docs.kernel.org/networking/snmp_counter.html and Mathis, Semke, Mahdavi, Ott: The Macroscopic Behavior of the TCP Congestion Avoidance " +
				"Algorithm (CCR 1997), https://doi.org/10.1145/263932.264023",
		},
		signs: []sign{ // the most serious first
			loss{
				share: "retransmits", floor: "segments", total: true, callers: true,
				part: []string{tcpAgain}, whole: []string{tcpOut},
				severity: findings.Warning, text: "TCP segments sent again", wholes: "TCP segments sent",
				title: "The {subject} retransmits {share} of its TCP segments.",
				cost:  "At such a loss a TCP connection keeps about {flight} segments in flight, however fast the network is (1.22 / sqrt(loss), Mathis 1997).",
				remedy: "Find where segments get lost: check whether drops of this machine's devices or queues coincide, test the path (`mtr -T`), " +
					"and suspect policers of cloud networks and small receive rings of virtual ones.",
			}.sign(),
			loss{
				share: "drops", floor: "dropped", callers: true,
				part:     []string{"node_network_receive_drop_total", "node_network_transmit_drop_total"},
				whole:    []string{"node_network_receive_packets_total", "node_network_transmit_packets_total", "node_network_receive_drop_total", "node_network_transmit_drop_total"},
				severity: findings.Warning, text: "packets dropped by network devices", wholes: "packets and drops of network devices",
				title: "The {subject}'s network devices drop {share} of the packets.",
				remedy: "Use larger rings (`ethtool -G`), more queues (`ethtool -L`) or a larger net.core.netdev_max_backlog, and relieve the CPU of soft interrupts: " +
					"packets arrive faster than the machine takes them, or no program wants them. In a confidential VM a full bounce buffer also drops packets.",
			}.sign(),
			loss{
				floor:    "refused",
				part:     []string{"node_netstat_TcpExt_ListenDrops"},
				severity: findings.Warning, text: "connections refused by full queues",
				title: "The {subject} refuses {rate} connections a second, because a listening socket's queue is full.",
				remedy: "Lengthen the backlog (listen(2), net.core.somaxconn, net.ipv4.tcp_max_syn_backlog), accept with more workers, or keep connections open: " +
					"a server does not accept connections as fast as they come.",
			}.sign(),
			loss{
				share: "resets", floor: "reset",
				part:     []string{"node_netstat_Tcp_EstabResets"},
				whole:    []string{"node_netstat_Tcp_ActiveOpens", "node_netstat_Tcp_PassiveOpens"},
				severity: findings.Info, text: "TCP connections that ended in a reset", wholes: "TCP connections opened",
				title: "{share} of the TCP connections of the {subject} end in a reset.",
				remedy: "tee_tcp_resets_sent_total and tee_tcp_resets_received_total show which side resets connections, and when. Load generators and health checks reset connections on purpose " +
					"(data left unread, or SO_LINGER set to 0); a middlebox or a timeout resets them too.",
			}.sign(),
		},
	},
	{
		Rule: findings.Rule{
			Name:  "blind_counters",
			Title: "Blind counters",
			Role:  findings.RoleMonitor,
			Doc: "The hardware or the hypervisor hides what an enabled source would read, such as performance counters in a production enclave, a trust domain or a plain " +
				"virtual machine. Hidden values are missing; they are not 0. The finding is for information only, because no setting on this machine makes the values available. The values must be hidden for the whole of each window. Sources that the monitor's budget restricts are not part of this rule. No threshold: there is nothing to compare.",
			Needs:     []string{"teescope_source_up"},
			Remedy:    "Measure on a machine that exposes the counters: bare metal, a virtual machine with a virtual PMU, an enclave in debug mode (not for production), or a trust domain with the attribute PERFMON. If you do not need the values, switch the source off.",
			Reference: "docs/metrics.md, \"Cannot see\" of each source; Intel SDM volume 3D, Enclave Code Debug and Profiling, Interaction with Performance Monitoring",
		},
		signs: []sign{{
			where: fmt.Sprintf("min_over_time(%[1]s[$window]) == 1 and %[1]s == 1", `teescope_source_blind{reason!="`+budgetReason+`"}`),
			keep:  []string{"job", "instance", "source"}, of: "teescope_source_up",
			subject: func(labels map[string]string) string { return labels["source"] },
			numbers: []number{
				{name: "share", text: "share of the readings in the last $window without its counters", unit: "ratio", together: true,
					expr: "sum by (job, instance, source) (count_over_time(teescope_source_blind{$here}[$window])) / sum by (job, instance, source) (count_over_time(teescope_source_up{$here}[$window]))"},
				{text: "1 if the source delivers its other values", expr: "sum by (job, instance, source) (teescope_source_up{$here})", together: true},
			},
			cases: []outcome{{
				when:     []limit{{numbers: "share", least: 0.5}}, // otherwise it has just begun, or comes and goes
				severity: findings.Info,
				titles:   []string{"Counters of {subject} are unavailable: {reason}."},
			}},
		}},
	},
	{
		Rule: findings.Rule{
			Name:  "over_budget",
			Title: "Monitor over budget",
			Topic: cpuSaturated,
			Role:  findings.RoleMonitor,
			Doc: "The monitor's own CPU time, in user space and in its eBPF programs, exceeds its budget, which is what `--budget` allows for each CPU times the number of CPUs, " +
				"over each window and over its newest half minute; ten times that is critical. In the first two minutes after the monitor's start only a critical finding opens. Measurements include the monitor's cost. The cost of an open page is not counted: it ends with the page.",
			Needs: []string{"teescope_overhead_cpu_seconds_total", "teescope_budget_ratio", "node_cpu_seconds_total"},
			Thresholds: []findings.Threshold{
				{Name: "factor", Doc: "CPU time of the monitor as a multiple of its budget", Unit: "ratio", Default: 1},
				{Name: "critical", Doc: "the same multiple, for a critical finding", Unit: "ratio", Default: 10},
			},
			Remedy:    "If the eBPF programs use most of this CPU time: " + lowerFirst(overBudgetKernel) + " If teescope's own process uses most of this CPU time: " + lowerFirst(overBudgetUser),
			Reference: "https://docs.kernel.org/admin-guide/sysctl/kernel.html#bpf-stats-enabled",
		},
		signs: []sign{{
			where: fmt.Sprintf("%s > $factor * %s and %s > $factor * %s", takenOver(overhead, whole), allowed, takenOver(overhead, last), allowed),
			of:    "teescope_overhead_cpu_seconds_total", subject: monitor,
			numbers: []number{
				{name: "total", text: "CPU time of the monitor", unit: "cores", expr: overhead, over: whole},
				{name: "now", text: "CPU time of the monitor", unit: "cores", expr: overhead, over: last},
				{name: "allowed", text: "its budget on this machine", unit: "cores", expr: allowed},
				{text: "CPU time of its part $part", unit: "cores", over: last,
					each: `sort(sum by (part) ($rate(teescope_overhead_cpu_seconds_total{$here,part!="page"})))`,
					expr: "sum by (job, instance) ($rate(teescope_overhead_cpu_seconds_total{$here,part=$part}))"},
				{name: "user", text: "CPU time of the monitor's process and of the commands that it starts", unit: "cores", over: whole,
					expr: strings.ReplaceAll(overhead, `part!="page"`, `part=~"userspace|"`)},
				{name: "kernel", unit: "cores", derived: func(of func(string) float64) float64 { return of("total") - of("user") }},
			},
			cases: []outcome{
				overBudget(limit{numbers: "kernel", op: ">", least: 1, times: "user"}, overBudgetKernel, "teescope's eBPF programs use {kernel}, and its own process uses {user}.", "All of it is in teescope's eBPF programs: {kernel}."),
				overBudget(limit{numbers: "user", op: "known"}, overBudgetUser, "teescope's own process uses {user}, and its eBPF programs use {kernel}.", "teescope's own process uses all of that: {user}."),
				overBudget(limit{numbers: "total", op: "known"}, ""),
			},
		}},
	},
	{
		Rule: findings.Rule{
			Name:  "lost_samples",
			Title: "Samples lost",
			Role:  findings.RoleMonitor,
			Doc: "The store refused or lost samples within the last 15 minutes, because its disk was full, a write failed, or single samples were refused. " +
				"Charts have a gap at that time, and rates across the gap are means. The finding appears once the store takes samples again; until then the finding *Samples are not stored* is open.",
			Needs: []string{"teescope_store_lost_samples_total"},
			Thresholds: []findings.Threshold{
				{Name: "samples", Doc: "samples lost within 15 minutes", Unit: "", Default: 1},
			},
			Remedy: "If single samples were refused, `teescope_store_refused_samples_total` has the reason, and the log names the first ones. " +
				"Otherwise free space on the disk that holds --data, keep less (--retention), or move the store to a larger disk.",
			Reference: "https://prometheus.io/docs/prometheus/latest/storage/#operational-aspects",
		},
		signs: []sign{{
			where: lost + " >= $samples",
			keep:  allLabels, of: "teescope_store_lost_samples_total", subject: monitor,
			numbers: []number{
				{name: "lost", text: "samples lost in the last 15m", expr: lost},
				{text: "samples lost since the monitor started", expr: "teescope_store_lost_samples_total{$here}"},
				{text: "samples refused one by one since the monitor started", expr: "sum(teescope_store_refused_samples_total{$here})"},
				{text: "failed writes after which the write-ahead log was repaired", expr: "teescope_store_wal_errors_total{$here}"},
			},
			cases: []outcome{{
				when:     []limit{{numbers: "lost", threshold: "samples"}},
				severity: findings.Warning,
				titles:   []string{"{subject} lost {lost} samples in the last 15 minutes: charts have a gap there."},
			}},
		}},
	},
	{
		Rule: findings.Rule{
			Name:  "names_full",
			Title: "Table of names full",
			Role:  findings.RoleMonitor,
			Doc: "A source counts at least one event a second under the name other, over each window and over its newest half minute, because its table of names is full. " +
				"Sums stay right, but names outside the table are on no chart and in no finding. A name without events loses its place to a new name. While the table is full, the quarter of the names with the fewest events lose their places too, so the busiest stay. The source interrupts is left out, because it always adds up small counts.",
			Needs: []string{folded},
			Thresholds: []findings.Threshold{
				{Name: "events", Doc: "events counted under the name other", Unit: "1/s", Default: 1},
			},
			Remedy: "Find what creates so many names: `ps -eo comm= | sort | uniq -c | sort -n`, or a program that renames its processes or makes short-lived ones with new names. " +
				"To always see certain processes, narrow the source to them (`sources: {NAME: {process: REGEX}}` in --config, or --process).",
			Reference: "https://man7.org/linux/man-pages/man5/proc_pid_comm.5.html",
		},
		signs: []sign{{
			value: "$rate(" + folded + `{$here,source!="interrupts"})`, least: "events",
			keep: []string{"job", "instance", "source"}, of: folded, subject: func(labels map[string]string) string { return "source " + labels["source"] },
			numbers: []number{
				{name: "rate", text: "events counted under the name other", unit: "1/s", expr: "$rate(" + folded + "{$here})", over: last},
				{text: "events counted under the name other since the start", expr: folded + "{$here}"},
			},
			cases: []outcome{{
				when:     []limit{{numbers: "rate", threshold: "events"}},
				severity: findings.Warning,
				titles:   []string{"The {subject} has no room for more names of processes: {rate} events a second are counted as other."},
				costs:    []string{"{rate} events a second have no process on any chart; sums stay right."},
			}},
		}},
	},
	{
		Rule: findings.Rule{
			Name:  "remote_write",
			Title: "Remote write behind or refused",
			Role:  findings.RoleMonitor,
			Doc:   "A receiver of remote_write lacks the samples of the last two minutes, over both windows, or it refused samples within the last 15 minutes. Samples that a receiver has not accepted yet wait in the write-ahead log, which keeps the last 1 to 3 hours. A refused sample is not sent again.",
			Needs: []string{remoteDelay},
			Thresholds: []findings.Threshold{
				{Name: "delay", Doc: "age of the newest sample that the receiver has", Unit: "seconds", Default: 120},
				{Name: "refused", Doc: "samples refused within 15 minutes", Unit: "", Default: 1},
			},
			Remedy:    "Read teescope's log, which has the receiver's answer. If the receiver is behind, check that it runs and that its URL, certificate and password are right. If the receiver is only slow, raise queue_config.max_shards. If the receiver refuses samples, its answer says why: the samples are too old, or a limit is reached.",
			Reference: "https://prometheus.io/docs/practices/remote_write/",
		},
		signs: []sign{{
			value: "min_over_time(" + remoteDelay + "{$here}[$over])", least: "delay",
			keep: receiverLabels, of: remoteDelay, subject: receiver,
			numbers: []number{
				{name: "delay", text: "age of the newest sample that the receiver has", unit: "seconds", expr: remoteDelay + "{$here}"},
				{text: "samples in memory that wait for it", expr: "prometheus_remote_storage_samples_pending{$here}"},
				{text: "samples that were sent again since the start", expr: "prometheus_remote_storage_samples_retried_total{$here}"},
			},
			cases: []outcome{{
				when:     []limit{{numbers: "delay", threshold: "delay"}},
				severity: findings.Warning,
				titles:   []string{"The {subject} is {delay} behind."},
				costs:    []string{"Samples older than the write-ahead log (1 to 3 hours) will be missing at the receiver."},
			}},
		}, {
			where: refusedSamples + " >= $refused",
			keep:  receiverLabels, of: remoteDelay, subject: receiver,
			numbers: []number{
				{name: "refused", text: "samples refused in the last 15m", expr: refusedSamples},
				{text: "samples refused since the start", expr: remoteFailed + "{$here}"},
			},
			cases: []outcome{{
				when:     []limit{{numbers: "refused", threshold: "refused"}},
				severity: findings.Warning,
				titles:   []string{"The {subject} refused {refused} samples in the last 15 minutes: they are missing there."},
			}},
		}},
	},
}

// receiver is the subject of signs of one receiver of remote write.
func receiver(labels map[string]string) string { return "remote write to " + labels["url"] }

var receiverLabels = []string{"job", "instance", "remote_name", "url"}

const (
	pagesAdded       = "tee_sgx_epc_pages_added_total"
	folded           = "teescope_series_folded_total"
	poolSize         = "tee_swiotlb_size_bytes"
	poolUsed         = "tee_swiotlb_used_bytes"
	bounced          = "tee_swiotlb_bounced_bytes_total"
	conversions      = "tee_private_memory_conversions_total"
	unaccepted       = "tee_unaccepted_memory_bytes"
	cfsPeriods       = "container_cpu_cfs_periods_total"
	cfsThrottled     = "container_cpu_cfs_throttled_periods_total"
	cfsSeconds       = "container_cpu_cfs_throttled_seconds_total"
	tcpOut, tcpAgain = "node_netstat_Tcp_OutSegs", "node_netstat_Tcp_RetransSegs"

	// budgetReason is the reason label of a source limited by the monitor's own budget.
	budgetReason = "budget"
	whereLost    = "Find the place of the loss with `nstat -az`, `ip -s -s link`, `ethtool -S DEVICE` and `dropwatch -l kas`."

	// inUse is the machine's CPU use, in cores.
	inUse          = `sum(rate(node_cpu_seconds_total{$here,mode!~"idle|iowait|steal"}[$newest]))`
	stolen         = `sum by (job, instance) ($rate(node_cpu_seconds_total{$here,mode="steal"})) / sum by (job, instance) ($rate(node_cpu_seconds_total{$here}))`
	throttled      = "$rate(" + cfsThrottled + "{$here}) / $rate(" + cfsPeriods + "{$here})"
	allowed        = `sum by (job, instance) (teescope_budget_ratio{$here}) * count by (job, instance) (node_cpu_seconds_total{$here,mode="idle"})`
	remoteDelay    = "teescope_remote_write_delay_seconds"
	remoteFailed   = "prometheus_remote_storage_samples_failed_total"
	refusedSamples = remoteFailed + "{$here} - (" + remoteFailed + "{$here} offset 15m or " + remoteFailed + "{$here} * 0)"
	// lost compares the counter with its value 15 minutes ago, 0 where it had none: while
	// nothing can be stored, the counter has no samples either.
	lost = "teescope_store_lost_samples_total{$here} - (teescope_store_lost_samples_total{$here} offset 15m or teescope_store_lost_samples_total{$here} * 0)"
)

const overhead = findings.OwnCPUTime

// enclavesMade returns the query for enclaves created per second, from the kernel's count.
func enclavesMade(aggregate string) string {
	return fmt.Sprintf("(%[1]s ($rate(tee_sgx_enclaves_initialized_total{$here})) or %[1]s ($rate(tee_sgx_enclaves_created_total{$here})))", aggregate)
}

// copied returns the query for the CPU time per second of copying all bounced bytes once.
func copied(bound string) string {
	return prices.Query("copy_page", bound, "sum(rate("+bounced+"{$here}[$newest]))",
		func(series string, matchers ...string) string {
			return series + "{$here," + strings.Join(matchers, ",") + "}"
		})
}

func converted(direction string) string {
	return fmt.Sprintf("sum($rate(%s{$here,direction=%q}))", conversions, direction)
}

// groupName returns the usual name of a control group: its container in its pod, the container runtime's name, or its
// path.
func groupName(labels map[string]string) string {
	if pod := labels["pod"]; pod != "" {
		part := cmp.Or(labels["container"], "pod")
		if labels["container"] == "" && labels["name"] != "" {
			part = "sandbox"
		}
		return strings.TrimPrefix(labels["namespace"]+"/", "/") + pod + "/" + part
	}
	return cmp.Or(labels["name"], labels["id"])
}

// The advice on a monitor over its budget, by where most of its CPU time is. Queries of open pages are not part of either.
const (
	overBudgetKernel = "Sources drop detail within seconds, then count only part of the time. If the cost stays high, switch off the source with the largest cost (page Settings), or raise --budget."
	overBudgetUser   = "Read less often (--interval), switch off sources that you do not need (page Settings), or raise --budget. The scan of all threads already runs up to four times less often."
)

// lowerFirst makes a sentence the second half of another.
func lowerFirst(sentence string) string { return strings.ToLower(sentence[:1]) + sentence[1:] }

// overBudget is the finding if most of the CPU time is in one part.
func overBudget(where limit, remedy string, costs ...string) outcome {
	return outcome{
		when:     []limit{{numbers: "total now", op: ">", threshold: "factor", times: "allowed"}, where},
		severity: findings.Warning,
		raise:    []limit{{numbers: "total now", threshold: "critical", times: "allowed"}}, raised: findings.Critical,
		titles: []string{"{subject} itself uses {total}; its budget on this machine is {allowed}."},
		costs:  costs,
		remedy: remedy,
	}
}

// strain returns the sign for a resource that tasks wait for, from the kernel's pressure stall information: the share
// of time in which at least one task waits.
func strain(resource, words string, severity findings.Severity, remedy string, blame func(context.Context, *evidence, map[string]string, *findings.Finding)) sign {
	waits := atMostOne(fmt.Sprintf("$rate(node_pressure_%s_waiting_seconds_total{$here})", resource))
	text := "share of time in which a task waited for " + words
	return sign{
		value: waits, least: resource,
		of: fmt.Sprintf("node_pressure_%s_waiting_seconds_total", resource), subject: machine,
		numbers: []number{
			{name: "share", text: text, unit: "ratio", expr: waits, over: whole, together: true},
			{name: "now", text: text, unit: "ratio", expr: waits, over: last, together: true},
		},
		cases: []outcome{{
			when:     []limit{{numbers: "share now", threshold: resource}},
			severity: severity,
			titles:   []string{"At least one task of the {subject} waits for " + words + " {share} of the time."},
		}},
		remedy: remedy, complete: blame,
	}
}

// withTopic sets the topic of what a sign reports, for a rule whose signs are of different problems.
func (s sign) withTopic(topic string) sign {
	s.topic = topic
	return s
}
