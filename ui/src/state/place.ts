// Where the reader is: page, time range, filter and the rest, all of it in the
// URL's query, so that a copied address shows the same thing.

export const pages = ["overview", "tee", "processes", "containers", "infrastructure", "findings", "explain", "benchmarks", "explore", "dashboards", "overhead"] as const;
export type Page = (typeof pages)[number];

/** The ranges that end now, with their length in seconds; "all" asks the store. */
export const ranges = { "5m": 300, "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800, all: Infinity } as const;
export type Range = keyof typeof ranges;

/** Seconds between refreshes; 0 is off. */
export const refreshes = [0, 5, 30] as const;
export type Refresh = (typeof refreshes)[number];

export const themes = ["auto", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

/** What the list of benchmarks is narrowed to; "" lets everything through. */
export const filters = ["text", "workload", "environment", "verdict", "grade"] as const;
export type Filter = Record<(typeof filters)[number], string>;

/** What the cost of a process is divided by. */
export const divisors = ["second", "request"] as const;
export type Per = (typeof divisors)[number];

/** The ways in which Explore shows a query. */
export const views = ["graph", "distribution", "changes"] as const;
export type View = (typeof views)[number];

/** A stretch of time in Unix seconds. */
export interface Span {
  from: number;
  to: number;
}

export interface Place {
  page: Page;
  range: Range;
  /** A fixed window; it overrides range. */
  fixed: Span | null;
  /** The earlier window that the page's own is compared with. */
  before: Span | null;
  /** Unanchored regular expression of process names, "" for all. */
  process: string;
  refresh: Refresh;
  theme: Theme;
  /** What is selected on the page: a process, a container, a finding, a result. */
  subject: string;
  /** What stands beside the subject: results, of which without a subject those
   * ticked in the list, or the process that the subject is compared with. */
  beside: string[];
  filter: Filter;
  per: Per;
  view: View;
  /** The query of the Explore page. */
  expr: string;
}

export const home: Place = {
  page: "overview",
  range: "15m",
  fixed: null,
  before: null,
  process: "",
  refresh: 5,
  theme: "auto",
  subject: "",
  beside: [],
  filter: { text: "", workload: "", environment: "", verdict: "", grade: "" },
  per: "second",
  view: "graph",
  expr: "",
};

/** Reads a query string; what is malformed counts as absent. */
export function parsePlace(search: string): Place {
  const q = new URLSearchParams(search);
  const oneOf = <T extends string>(key: string, list: readonly T[], otherwise: T): T =>
    list.find((v) => v === q.get(key)) ?? otherwise;
  const span = (start: string, end: string): Span | null => {
    const from = Number(q.get(start));
    const to = Number(q.get(end));
    return from > 0 && to > from && Number.isFinite(to) ? { from, to } : null;
  };
  return {
    page: oneOf("page", pages, home.page),
    range: oneOf("range", Object.keys(ranges) as Range[], home.range),
    fixed: span("from", "to"),
    before: span("beforeFrom", "beforeTo"),
    process: q.get("process") ?? "",
    refresh: refreshes.find((r) => String(r) === q.get("refresh")) ?? home.refresh,
    theme: oneOf("theme", themes, home.theme),
    subject: q.get("subject") ?? "",
    beside: q.getAll("beside").filter((id) => id !== ""),
    filter: Object.fromEntries(filters.map((f) => [f, q.get(f) ?? ""])) as Filter,
    per: oneOf("per", divisors, home.per),
    view: oneOf("view", views, home.view),
    expr: q.get("expr") ?? "",
  };
}

/** The query string of a place; what is as at home is left out. */
export function formatPlace(p: Place): string {
  const q = new URLSearchParams();
  if (p.page !== home.page) q.set("page", p.page);
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
  if (p.theme !== home.theme) q.set("theme", p.theme);
  if (p.subject) q.set("subject", p.subject);
  for (const id of p.beside) q.append("beside", id);
  for (const f of filters) if (p.filter[f]) q.set(f, p.filter[f]);
  if (p.per !== home.per) q.set("per", p.per);
  if (p.view !== home.view) q.set("view", p.view);
  if (p.expr) q.set("expr", p.expr);
  const s = q.toString();
  return s === "" ? "" : `?${s}`;
}

/** Another page at the same window and process filter; the selection stays behind. */
export function goTo(p: Place, page: Page, subject = "", expr = ""): Place {
  return { ...p, page, subject, before: null, beside: [], filter: home.filter, per: home.per, view: home.view, expr };
}
