// The server's two APIs, except for queries: see ../query/feed.
import type { Window } from "../state/window";
import { own, request, requestText, type Received } from "./request";
import { changed, getShared } from "./shared";
import type { FindingsSilence, Dashboard, Dashboards, Silences, ProbeSetting } from "./types";

export { queryAt, queryRange, type Rows } from "../query/feed";
export { AnswerError } from "./request";

const prometheus = "api/v1/";

/** GET of a document under /api/teescope/v1. */
export async function getDocument<T>(name: string, signal?: AbortSignal): Promise<T> {
  return (await getShared(own + name, signal)) as T;
}

/** The name of a document with its parameters; those that are "" are left out. */
export function asking(name: string, params: Record<string, string | number>): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) if (v !== "") q.set(k, String(v));
  return `${name}?${q}`;
}

/** A finding as Markdown, for a ticket. */
export async function getMarkdown(id: string): Promise<string> {
  const text = await requestText(`${own}${asking("findings", { id, as: "markdown" })}`);
  if (text.trim() === "") throw new Error("the monitor's history no longer has this finding; reload the page");
  return text;
}

/** Switches a source, or changes its level of detail, filters or sampling. */
export async function setSource(name: string, setting: ProbeSetting): Promise<void> {
  await send("POST", `sources/${encodeURIComponent(name)}`, setting);
}

/** Adds a silence; the server gives it an id. */
export async function addSilence(s: Omit<FindingsSilence, "id">): Promise<Silences> {
  return (await send("POST", "silences", s)) as Silences;
}

/** Ends a silence before its time. */
export async function endSilence(id: string): Promise<void> {
  await send("DELETE", `silences/${encodeURIComponent(id)}`);
}

/** Dashboards, and the tag of their state: a change of another state is refused. */
export interface KeptDashboards extends Dashboards {
  tag: string;
}

/** The dashboards as they are now. */
export async function getDashboards(signal?: AbortSignal): Promise<KeptDashboards> {
  return tagged(await request(`${own}dashboards`, { signal: signal ?? null }));
}

/** Stores the users' own dashboards if the stored ones still have the tag; otherwise the error has
 * status 412. */
export async function keepDashboards(list: Dashboard[], tag: string): Promise<KeptDashboards> {
  const d: Dashboards = { dashboards: list };
  return tagged(await request(`${own}dashboards`, { method: "PUT", headers: { "Content-Type": "application/json", "If-Match": tag }, body: JSON.stringify(d) }));
}

function tagged({ value, tag }: Received): KeptDashboards {
  return { ...(value as Dashboards), tag };
}

async function send(method: string, name: string, body?: unknown): Promise<unknown> {
  const { value } = await request(own + name, body === undefined ? { method } : { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  changed();
  return value;
}

interface Answer<T> {
  status: string;
  error?: string;
  data?: T;
}

/** The values of a label within a window, among the series that a selector matches. */
export function labelValues(label: string, selector: string, w: Window, signal?: AbortSignal): Promise<string[]> {
  return ask(`label/${label}/values`, { "match[]": selector, start: String(w.from), end: String(w.to) }, signal);
}

/** What is known of each metric, by its name. */
export function metadata(signal?: AbortSignal): Promise<{ [name: string]: { type: string; help: string }[] | undefined }> {
  return ask("metadata", {}, signal);
}

async function ask<T>(path: string, params: Record<string, string>, signal?: AbortSignal): Promise<T> {
  const answer = (await getShared(`${prometheus}${path}?${new URLSearchParams(params)}`, signal)) as Answer<T>;
  if (answer.status !== "success" || answer.data === undefined) throw new Error(answer.error ?? "the server sent no data");
  return answer.data;
}
