// The server's two APIs. Every failure is an Error whose message a person can read.
import type { FindingsSilence, Dashboard, Dashboards, Error as ApiError, Silences, ProbeSetting } from "./types";
import type { MatrixRow, VectorRow } from "../query/series";
import type { Window } from "../state/window";

// Relative to the page, so that it works behind a path of a reverse proxy.
const own = "api/teescope/v1/";
const prometheus = "api/v1/";

/** GET of a document under /api/teescope/v1. */
export async function getDocument<T>(name: string, signal?: AbortSignal): Promise<T> {
  return (await request(own + name, { signal: signal ?? null })).value as T;
}

/** The name of a document with what is asked of it; parts that are "" are left out. */
export function asking(name: string, params: Record<string, string | number>): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) if (v !== "") q.set(k, String(v));
  return `${name}?${q}`;
}

/** Switches a source, or changes its level of detail, what it is narrowed to or its sampling. */
export async function setSource(name: string, setting: ProbeSetting): Promise<void> {
  await send("POST", `sources/${encodeURIComponent(name)}`, setting);
}

/** Adds a silence, which the server gives its id. */
export async function addSilence(s: Omit<FindingsSilence, "id">): Promise<Silences> {
  return (await send("POST", "silences", s)) as Silences;
}

/** Ends a silence before its time. */
export async function endSilence(id: string): Promise<void> {
  await send("DELETE", `silences/${encodeURIComponent(id)}`);
}

/** Dashboards, and the name of this state of them: a change of another state is refused. */
export interface KeptDashboards extends Dashboards {
  tag: string;
}

/** The dashboards as they are now. */
export async function getDashboards(signal?: AbortSignal): Promise<KeptDashboards> {
  return tagged(await request(`${own}dashboards`, { signal: signal ?? null }));
}

/** Keeps the users' own dashboards as they are given here, if those that are kept are
 * still those of the tag; else the error has status 412. */
export async function keepDashboards(list: Dashboard[], tag: string): Promise<KeptDashboards> {
  const d: Dashboards = { dashboards: list };
  return tagged(await request(`${own}dashboards`, { method: "PUT", headers: { "Content-Type": "application/json", "If-Match": tag }, body: JSON.stringify(d) }));
}

function tagged({ value, tag }: Received): KeptDashboards {
  return { ...(value as Dashboards), tag };
}

async function send(method: string, name: string, body?: unknown): Promise<unknown> {
  return (await request(own + name, body === undefined ? { method } : { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).value;
}

/** The server's own refusal, with its reason as the message. */
export class AnswerError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

interface Answer<T> {
  status: string;
  error?: string;
  data?: T;
  warnings?: string[];
}

/** Values, and what the monitor has to say of them: which source was sampled or blind. */
export interface Rows<T> {
  rows: T[];
  warnings: string[];
}

/** Values at one time. A scalar comes back as a vector with one unlabelled row. */
export async function queryAt(expr: string, time: number, signal?: AbortSignal): Promise<Rows<VectorRow>> {
  const { data, warnings } = await ask<{ resultType: string; result: VectorRow[] | [number, string] }>("query", { query: expr, time: String(time) }, signal);
  if (data.resultType === "scalar") return { rows: [{ metric: {}, value: data.result as [number, string] }], warnings };
  if (data.resultType !== "vector") throw new Error(`the query gives a ${data.resultType}; the page shows vectors and scalars`);
  return { rows: data.result as VectorRow[], warnings };
}

/** Values on the window's grid. */
export async function queryRange(expr: string, w: Window, signal?: AbortSignal): Promise<Rows<MatrixRow>> {
  const { data, warnings } = await ask<{ result: MatrixRow[] }>("query_range", { query: expr, start: String(w.from), end: String(w.to), step: String(w.step) }, signal);
  return { rows: data.result, warnings };
}

/** The values of a label within a window, among the series that a selector matches. */
export async function labelValues(label: string, selector: string, w: Window, signal?: AbortSignal): Promise<string[]> {
  return (await ask<string[]>(`label/${label}/values`, { "match[]": selector, start: String(w.from), end: String(w.to) }, signal)).data;
}

async function ask<T>(path: string, params: Record<string, string>, signal?: AbortSignal): Promise<{ data: T; warnings: string[] }> {
  const answer = (await request(`${prometheus}${path}?${new URLSearchParams(params)}`, { signal: signal ?? null })).value as Answer<T>;
  if (answer.status !== "success" || answer.data === undefined) throw new Error(answer.error ?? "the server sent no data");
  return { data: answer.data, warnings: answer.warnings ?? [] };
}

/** What the server sent, and its ETag, "" where it gave none. */
interface Received {
  value: unknown;
  tag: string;
}

async function request(url: string, init: RequestInit): Promise<Received> {
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (e) {
    if (init.signal?.aborted) throw e;
    throw new Error("The monitor does not answer. Is it still running?", { cause: e });
  }
  const text = await response.text();
  if (!response.ok) throw new AnswerError(response.status, messageOf(text) ?? `The monitor answered ${response.status} ${response.statusText}`.trim());
  try {
    return { value: text === "" ? null : JSON.parse(text), tag: response.headers.get("ETag") ?? "" };
  } catch (e) {
    throw new Error("The monitor sent something that is not JSON. Another server may be at this address.", { cause: e });
  }
}

function messageOf(text: string): string | null {
  try {
    const e = JSON.parse(text) as Partial<ApiError>;
    return e.error || null;
  } catch {
    return null;
  }
}
