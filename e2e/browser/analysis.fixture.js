// Constructed answers of the monitor for what a test machine lacks: a process with causes, failed
// checks, findings of every severity.

const iso = (seconds) => new Date(seconds * 1000).toISOString();
const amount = (value, half = value * 0.08) => ({ value, low: value - half, high: value + half });

/** A process name that contains markup and moves a terminal's cursor. */
export const hostile = "<img src=x onerror=alert(1)>\u001b[31m";

/** Where the time of a process went, in the format of GET explain; more is how much longer its
 * system calls take, and starved the share of waiting for a CPU. */
export function explanation(process, { from, to, per = "second", more = 0, starved = 0 }) {
  const scale = per === "request" ? 1e-4 : 1;
  const row = (id, title, part, share, o = {}) => ({ id, title, part, time: amount(share * scale), share: amount(share), evidence: [{ text: "calls per second", value: 1e6, unit: "1/s", expr: `sum(rate(tee_syscalls_total{syscall="${id}"}[1m]))` }], ...o });
  const unit = (value, origin) => ({ ...amount(value), origin, how: "a loop of calls on this host" });
  return {
    summary: {
      level: "info",
      headline: starved > 0 ? `${process} spends ${starved * 100} % of its active time waiting for a free CPU.` : `${process} spends 40 % of its time in clock_gettime.`,
      whole: `Its threads together were active for ${per === "request" ? "80 µs per request" : "800 ms a second"} (from 0.7 to 0.9 times that). Of that, 12 % [8, 16] is not explained.`,
      starved: starved > 0,
    },
    tree: {
      subject: process,
      from: iso(from),
      to: iso(to),
      per,
      requests: { text: "requests per second", value: 1200, unit: "1/s", expr: "sum(rate(tee_requests_total[1m]))" },
      active: amount(0.8 * scale + more),
      rows: [
        row("own", "Own work", "user", 0.25),
        row("syscall:clock_gettime", "System call clock_gettime", "kernel", 0.4 + more, {
          rate: amount(1e6),
          unit: unit(4e-7, "measured"),
          cause: "syscall_storm",
          advice: "read the clock through the vDSO",
          rows: [row("syscall:clock_gettime:entry", "entering the kernel", "kernel", 0.3, { rate: amount(1e6), unit: unit(2e-7, "calibrated") })],
        }),
        row("lock", "Waiting for locks", "wait", 0.11),
        ...(starved > 0 ? [row("queue", "waiting for a CPU", "wait", starved, { cause: "cpu_starvation", advice: "use fewer threads" })] : []),
      ],
      ...(starved > 0 ? { rivals: { text: `While ${process} waits for a CPU, compile uses 97 % of a core.`, takers: [{ name: "compile", value: 0.97, unit: "cores" }], own: 0.1 } } : {}),
      // What the sampling clock cannot have missed more of.
      unseen: { cpu: { value: 0, low: 0, high: 0.002 * scale }, wait: { value: 0, low: 0, high: 0.008 * scale } },
      unexplained: amount(0.12 * scale, 0.04 * scale),
      unexplainedShare: amount(0.12, 0.04),
      checks: [
        { text: "explained kernel time against measured system time", explained: 0.4, measured: 0.41, holds: true },
        { text: "system calls against clock samples", explained: 0.5, measured: 0.41, holds: false },
      ],
      blind: ["cache misses: the hypervisor hides the hardware counters"],
    },
    causes: [
      ...(starved > 0 ? [{ rule: "cpu_starvation", title: `${process} spends ${starved * 100} % of its active time waiting for a free CPU.`, share: amount(starved), rows: ["queue"], advice: "use fewer threads" }] : []),
      { rule: "syscall_storm", title: `${process} spends 40 % of its time in clock_gettime.`, share: amount(0.4), rows: ["syscall:clock_gettime"], advice: "read the clock through the vDSO" },
      { rule: "lock_contention", title: `${process} waits 11 % of its time for locks.`, share: amount(0.11), rows: ["lock"], advice: "" },
    ],
    findings: [],
  };
}

/** Findings in the format of GET findings: one of each severity. The second is closed and about a
 * process with a hostile name. */
export function findings(now, process) {
  const one = (id, severity, subject, o) => ({ id, rule: "syscall_storm", subject, title: `${subject} shows ${id}`, severity, confidence: "medium", evidence: [{ text: "calls per second", value: 5e5, unit: "1/s", expr: "sum(rate(tee_syscalls_total[1m]))" }], remedy: "make fewer calls", reference: "https://docs.kernel.org", state: "open", since: iso(now - 120), lastSeen: iso(now), ...o });
  return {
    at: iso(now),
    findings: [
      one("a storm", "critical", process, { share: [0.38, 0.44], cost: "0.4 of a core, all the time" }),
      one("a lock", "warning", hostile, { rule: "lock_contention", state: "closed", since: iso(now - 240), lastSeen: iso(now - 180), until: iso(now - 170) }),
      one("a note", "info", "machine", { rule: "blind_counters", role: "monitor", since: iso(now - 86400) }),
    ],
    problems: [{ title: `${process} shows a storm`, severity: "critical", lead: "a storm", since: iso(now - 120), effects: [] }],
    summary: { level: "critical", headline: `1 problem: ${process} shows a storm`, detail: "2 of 3 checks ran; 1 lacks data here.", checks: "2 of 3 checks ran; 1 lacks data here" },
    rules: [
      { name: "syscall_storm", title: "System call storm", doc: "More calls than work.", answer: "fires", windows: [300, 60] },
      { name: "lock_contention", title: "Lock contention", doc: "Threads that wait for each other.", answer: "silent", windows: [300, 60] },
      { name: "epc_paging", title: "EPC paging", doc: "Enclave memory that does not fit.", answer: "cannot tell", reason: "no series of tee_sgx_epc_pages_evicted_total", windows: [300, 60] },
    ],
  };
}
