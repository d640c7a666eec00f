// Open findings as problems: related ones as one, the worst first. Findings about the monitor
// itself are not problems of the machine, unless it takes what services lack.
import type { Findings, FindingsRecord } from "../api/types";
import { count, openFindings } from "./verdict";

/** What several findings have in common: their cause, and the rules that report it. */
interface Topic {
  /** What the machine lacks or has too much of. */
  title: string;
  /** Rules that name the cause itself, and those about its effects. */
  causes: string[];
  effects: string[];
  /** The rule about the monitor that adds to the problem. It is none of its own. */
  own?: string;
}

const topics: Topic[] = [
  { title: "CPU saturated", causes: ["pressure", "cpu_steal"], effects: ["cpu_starvation", "cpu_throttling", "context_switch_storm"], own: "over_budget" },
  { title: "Disk saturated", causes: ["io_saturation"], effects: ["logging"] },
  { title: "Enclave memory is full", causes: ["epc_nearly_full"], effects: ["epc_paging", "enclave_churn"] },
  { title: "Shared memory of the guest is short", causes: ["bounce_buffers"], effects: ["bounced_io", "memory_conversions"] },
];

/** Rules about the monitor itself and its data. */
export const ownRules = ["over_budget", "lost_samples", "damaged_data", "blind_counters", "remote_write"];

/** Independent rules: a finding of one says nothing about another. */
export const aloneRules = [
  "anomaly",
  "cache_thrash",
  "clock_source",
  "enclave_transitions",
  "guest_exit_storm",
  "lock_contention",
  "network_loss",
  "page_fault_storm",
  "syscall_storm",
  "target_down",
  "tls_handshakes",
  "unaccepted_memory",
  "vdso_bypass",
  "vm_exit_storm",
];

/** Every rule listed here. */
export const knownRules = [...topics.flatMap((t) => [...t.causes, ...t.effects]), ...ownRules, ...aloneRules];

export interface Problem {
  /** The finding that represents the problem. */
  lead: FindingsRecord;
  /** Its effects, and findings with the same cause; last, if the monitor adds to it, the finding that says so. */
  effects: FindingsRecord[];
  title: string;
}

/** Waiting for memory and for a CPU are the same rule about different things. */
function topicOf(f: FindingsRecord): Topic | undefined {
  if (f.rule === "pressure" && f.evidence?.some((e) => e.expr.includes("pressure_memory"))) return undefined;
  return topics.find((t) => t.causes.includes(f.rule) || t.effects.includes(f.rule));
}

/** The subject of a finding without its machine, which rules name where there are several. */
export function subjectOf(f: Pick<FindingsRecord, "subject" | "instance">): string {
  if (f.subject === `machine ${f.instance}`) return "machine";
  const on = ` on ${f.instance}`;
  return f.instance && f.subject.endsWith(on) ? f.subject.slice(0, -on.length) : f.subject;
}

export function isOwn(f: FindingsRecord): boolean {
  return ownRules.includes(f.rule);
}

/** The problems of the machine and its processes that are open now, the worst first. */
export function problemsOf(f: Findings | null): Problem[] {
  const open = openFindings(f).filter((r) => r.severity !== "info");
  return grouped(open.filter((r) => !isOwn(r)), open.filter(isOwn));
}

const order = { critical: 0, warning: 1, info: 2 };

/** The middle of a finding's share of its subject's time; 0 if unknown. */
function effectOf(f: FindingsRecord): number {
  return f.share ? (f.share[0] + f.share[1]) / 2 : 0;
}

function compare(a: FindingsRecord, b: FindingsRecord): number {
  return order[a.severity] - order[b.severity] || effectOf(b) - effectOf(a) || a.since.localeCompare(b.since);
}

function grouped(list: FindingsRecord[], own: FindingsRecord[]): Problem[] {
  const groups = new Map<string, { topic: Topic | undefined; members: FindingsRecord[] }>();
  for (const f of list.toSorted(compare)) {
    const topic = topicOf(f);
    // What one process does gets one row; a machine can lack several things.
    const key = topic?.title ?? (subjectOf(f) === "machine" ? f.id : `subject ${f.subject}`);
    const group = groups.get(key) ?? { topic, members: [] };
    group.members.push(f);
    groups.set(key, group);
  }
  return [...groups.values()]
    .map(({ topic, members }): Problem => {
      const cause = members.find((f) => topic?.causes.includes(f.rule));
      const lead = cause ?? members[0]!;
      const named = topic && members.length > 1;
      // If a title names the cause, the leading finding is not repeated in the list.
      const effects = named && !cause ? members : members.filter((f) => f !== lead);
      // A cause that names who takes what is short says more than the number of its effects.
      const title = named && !cause?.takers?.length ? `${topic.title}: ${count(effects.length, "effect")}${onWhom(effects)}` : lead.title.replace(/\.$/, "");
      return { lead, effects: [...effects, ...own.filter((f) => f.rule === topic?.own)], title };
    })
    .toSorted((a, b) => compare(worst(a), worst(b)));
}

/** ", on web and db": the first two whose findings these are, the worst first. */
function onWhom(effects: FindingsRecord[]): string {
  const names = [...new Set(effects.map(subjectOf))].filter((s) => s !== "machine");
  if (names.length === 0) return "";
  const more = names.length - 2;
  return `, on ${more > 0 ? `${names.slice(0, 2).join(", ")} and ${more} more` : names.join(" and ")}`;
}

function worst(p: Problem): FindingsRecord {
  return [p.lead, ...p.effects.filter((f) => !isOwn(f))].toSorted(compare)[0]!;
}

/** The severity of a problem is that of its worst finding. */
export function severityOf(p: Problem): FindingsRecord["severity"] {
  return worst(p).severity;
}
