// The reader's place: page, time range, filter and the rest, all in the URL's query, so a copied
// address shows the same thing.
import type { View } from "../api/types";

// The server has the same list: it leads "/findings" to "/?page=findings".
const listed: Record<View, true> = { now: true, processes: true, tee: true, machine: true, benchmarks: true, explore: true, findings: true, settings: true, fleet: true };
export type Page = View;
export const pages = Object.keys(listed) as Page[];

/** The ranges that end now, with their length in seconds; "all" asks the store. */
export const ranges = { "5m": 300, "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800, all: Infinity } as const;
export type Range = keyof typeof ranges;

/** Seconds between refreshes; 0 is off. */
export const refreshes = [0, 5, 30] as const;
export type Refresh = (typeof refreshes)[number];

/** The filters of the list of benchmarks, and of that of machines (text, environment, verdict); "" selects
 * everything. */
export const filters = ["text", "workload", "environment", "verdict", "grade"] as const;
export type Filter = Record<(typeof filters)[number], string>;

/** The divisor of a process's cost. */
export const divisors = ["second", "request"] as const;
export type Per = (typeof divisors)[number];

/** A span of time in Unix seconds. */
export interface Span {
  from: number;
  to: number;
}

/** The shortest window of a chart, in seconds: two readings at the default interval. */
export const shortest = 10;

/** The labels that all series of a machine have. */
export interface MachineName {
  job: string;
  instance: string;
}

export interface Place {
  page: Page;
  /** The shown machine; null is the monitor's own. */
  machine: MachineName | null;
  range: Range;
  /** A fixed window; it overrides range. */
  fixed: Span | null;
  /** The earlier window to compare the page's window with. */
  before: Span | null;
  /** Unanchored regular expression of process names, "" for all. */
  process: string;
  refresh: Refresh;
  /** The selection of the page: a process, a container, a finding, a result. */
  subject: string;
  /** What is compared with the subject: results (without a subject, those ticked in the list), or
   * another process. */
  beside: string[];
  filter: Filter;
  per: Per;
  /** The tab of the page; "" is its first. */
  tab: string;
  /** The column by which the page's table is sorted; "" is its first. */
  sort: string;
  /** The finding that is open in the drawer. */
  problem: string;
  /** The query of the Explore page. */
  expr: string;
}

export const home: Place = {
  page: "now",
  machine: null,
  range: "15m",
  fixed: null,
  before: null,
  process: "",
  refresh: 5,
  subject: "",
  beside: [],
  filter: { text: "", workload: "", environment: "", verdict: "", grade: "" },
  per: "second",
  tab: "",
  sort: "",
  problem: "",
  expr: "",
};

/** Reads a query string; malformed values count as absent. */
export function parsePlace(search: string): Place {
  const q = new URLSearchParams(search);
  const oneOf = <T extends string>(key: string, list: readonly T[], otherwise: T): T =>
    list.find((v) => v === q.get(key)) ?? otherwise;
  const span = (start: string, end: string): Span | null => {
    const from = Number(q.get(start));
    const to = Number(q.get(end));
    return from > 0 && to > from && Number.isFinite(to) ? { from, to } : null;
  };
  // An unknown tab or column is the first.
  const word = (key: string) => (/^[a-z_]{1,32}$/.test(q.get(key) ?? "") ? q.get(key)! : "");
  return {
    page: oneOf("page", pages, home.page),
    machine: q.get("machine") && q.get("job") ? { job: q.get("job")!, instance: q.get("machine")! } : null,
    range: oneOf("range", Object.keys(ranges) as Range[], home.range),
    fixed: span("from", "to"),
    before: span("beforeFrom", "beforeTo"),
    process: q.get("process") ?? "",
    refresh: refreshes.find((r) => String(r) === q.get("refresh")) ?? home.refresh,
    subject: q.get("subject") ?? "",
    beside: q.getAll("beside").filter((id) => id !== ""),
    filter: Object.fromEntries(filters.map((f) => [f, q.get(f) ?? ""])) as Filter,
    per: oneOf("per", divisors, home.per),
    tab: word("tab"),
    sort: word("sort"),
    problem: q.get("problem") ?? "",
    expr: q.get("expr") ?? "",
  };
}

/** What is wrong with the windows and the machine in a query string; "" if nothing is. */
export function misread(search: string): string {
  const q = new URLSearchParams(search);
  const wrong = (start: string, end: string): string => {
    if (!q.has(start) && !q.has(end)) return "";
    const [from, to] = [Number(q.get(start)), Number(q.get(end))];
    if (!(from > 0 && to > 0 && Number.isFinite(from) && Number.isFinite(to))) return `needs two times in Unix seconds, ${start} and ${end}`;
    return to > from ? "" : "ends before it begins";
  };
  const machine = Boolean(q.get("machine")) !== Boolean(q.get("job")) && "The address names a machine incompletely: it needs both machine and job. The monitor's own machine is shown instead.";
  const [shown, before] = [wrong("from", "to"), wrong("beforeFrom", "beforeTo")];
  const { fixed } = parsePlace(search);
  const brief = fixed && fixed.to - fixed.from < shortest && `The window in the address is shorter than ${shortest} s, so charts can be empty. Choose a longer window.`;
  return [shown && `The window in the address ${shown}. The live window is shown instead.`, before && `The comparison window in the address ${before}. Nothing is compared.`, brief, machine].filter(Boolean).join(" ");
}

/** The query string of a place; default values are left out. */
export function formatPlace(p: Place): string {
  const q = new URLSearchParams();
  if (p.page !== home.page) q.set("page", p.page);
  if (p.machine) {
    q.set("machine", p.machine.instance);
    q.set("job", p.machine.job);
  }
  if (p.fixed) {
    q.set("from", String(p.fixed.from));
    q.set("to", String(p.fixed.to));
  } else if (p.range !== home.range) q.set("range", p.range);
  if (p.before) {
    q.set("beforeFrom", String(p.before.from));
    q.set("beforeTo", String(p.before.to));
  }
  if (p.process) q.set("process", p.process);
  if (p.refresh !== home.refresh) q.set("refresh", String(p.refresh));
  if (p.subject) q.set("subject", p.subject);
  for (const id of p.beside) q.append("beside", id);
  for (const f of filters) if (p.filter[f]) q.set(f, p.filter[f]);
  if (p.per !== home.per) q.set("per", p.per);
  if (p.tab) q.set("tab", p.tab);
  if (p.sort) q.set("sort", p.sort);
  if (p.problem) q.set("problem", p.problem);
  if (p.expr) q.set("expr", p.expr);
  const s = q.toString();
  return s === "" ? "" : `?${s}`;
}

/** Another page with the same machine, window and process filter, without the selection. */
export function goTo(p: Place, page: Page, subject = "", expr = ""): Place {
  return { ...p, page, subject, before: null, beside: [], filter: home.filter, per: home.per, tab: "", sort: "", problem: "", expr };
}
