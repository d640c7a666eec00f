// How the page asks the server. Every failure is an Error whose message a person can read.
import { answered, lost, unanswered } from "./reach";
import type { Error as ApiError } from "./types";

// Relative to the page, so it works behind a path of a reverse proxy.
export const own = "api/teescope/v1/";

/** The server's own refusal, with its reason as the message. */
export class AnswerError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** What the server sent, and its ETag, "" if it had none. */
export interface Received {
  value: unknown;
  tag: string;
}

/** A document of JSON. */
export async function request(url: string, init: RequestInit): Promise<Received> {
  const response = await respond(url, init);
  const text = await response.text();
  return { value: text === "" ? null : parse(text), tag: response.headers.get("ETag") ?? "" };
}

/** A text as it is. */
export async function requestText(url: string): Promise<string> {
  return (await respond(url, {})).text();
}

/** Documents of JSON, a line each, as they come. */
export async function requestLines(url: string, init: RequestInit, each: (value: unknown) => void): Promise<void> {
  const body = (await respond(url, init)).body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = (await body?.read().catch(unreachable)) ?? { value: undefined, done: true };
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : (lines.pop() ?? "");
    for (const l of lines) if (l !== "") each(parse(l));
    if (done) return;
  }
}

async function respond(url: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (e) {
    if (init.signal?.aborted) throw e;
    return unreachable(e);
  }
  answered();
  if (!response.ok) throw new AnswerError(response.status, messageOf(await response.text()) ?? `The monitor answered ${response.status} ${response.statusText}`.trim());
  return response;
}

function unreachable(cause: unknown): never {
  lost();
  throw new Error(unanswered, { cause });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error("The monitor sent something that is not JSON. Another server may be at this address.", { cause });
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
