// Where the reader is: page, time range, filter and the rest, all of it in the
// URL's query, so that a copied address shows the same thing.

export const pages = ["overview", "tee", "processes", "containers", "infrastructure", "findings", "benchmarks", "explore", "overhead"] as const;
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

export interface Place {
  page: Page;
  range: Range;
  /** Unix seconds of a fixed window; it overrides range. */
  fixed: { from: number; to: number } | null;
  /** Unanchored regular expression of process names, "" for all. */
  process: string;
  refresh: Refresh;
  theme: Theme;
  /** What is selected on the page: a process, a container, a finding, a result. */
  subject: string;
  /** Results that stand beside the subject; without one, those ticked in the list. */
  beside: string[];
  filter: Filter;
  /** The query of the Explore page. */
  expr: string;
}

export const home: Place = {
  page: "overview",
  range: "15m",
  fixed: null,
  process: "",
  refresh: 5,
  theme: "auto",
  subject: "",
  beside: [],
  filter: { text: "", workload: "", environment: "", verdict: "", grade: "" },
  expr: "",
};

/** Reads a query string; what is malformed counts as absent. */
export function parsePlace(search: string): Place {
  const q = new URLSearchParams(search);
  const oneOf = <T extends string>(key: string, list: readonly T[], otherwise: T): T =>
    list.find((v) => v === q.get(key)) ?? otherwise;
  const from = Number(q.get("from"));
  const to = Number(q.get("to"));
  return {
    page: oneOf("page", pages, home.page),
    range: oneOf("range", Object.keys(ranges) as Range[], home.range),
    fixed: from > 0 && to > from && Number.isFinite(to) ? { from, to } : null,
    process: q.get("process") ?? "",
    refresh: refreshes.find((r) => String(r) === q.get("refresh")) ?? home.refresh,
    theme: oneOf("theme", themes, home.theme),
    subject: q.get("subject") ?? "",
    beside: q.getAll("beside").filter((id) => id !== ""),
    filter: Object.fromEntries(filters.map((f) => [f, q.get(f) ?? ""])) as Filter,
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
  if (p.process) q.set("process", p.process);
  if (p.refresh !== home.refresh) q.set("refresh", String(p.refresh));
  if (p.theme !== home.theme) q.set("theme", p.theme);
  if (p.subject) q.set("subject", p.subject);
  for (const id of p.beside) q.append("beside", id);
  for (const f of filters) if (p.filter[f]) q.set(f, p.filter[f]);
  if (p.expr) q.set("expr", p.expr);
  const s = q.toString();
  return s === "" ? "" : `?${s}`;
}

/** Another page at the same window and process filter; the selection stays behind. */
export function goTo(p: Place, page: Page, subject = "", expr = ""): Place {
  return { ...p, page, subject, beside: [], filter: home.filter, expr };
}
