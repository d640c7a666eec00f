// One request for all who ask for the same document at a time.
import { request } from "./request";

interface Flight {
  answer: Promise<unknown>;
  /** How many wait for it; without any it is aborted. */
  waiting: number;
  control: AbortController;
}

const flying = new Map<string, Flight>();

/** A document of JSON. If the same is on its way, its answer is this one's too. A signal ends only the
 * own waiting. */
export function getShared(url: string, signal?: AbortSignal): Promise<unknown> {
  const flight = flying.get(url) ?? begin(url);
  flight.waiting++;
  const leave = () => {
    if (--flight.waiting > 0) return;
    drop(url, flight);
    flight.control.abort();
  };
  signal?.addEventListener("abort", leave, { once: true });
  const done = () => signal?.removeEventListener("abort", leave);
  flight.answer.then(done, done);
  return flight.answer;
}

function begin(url: string): Flight {
  const control = new AbortController();
  const answer = request(url, { signal: control.signal }).then((r) => r.value);
  const flight: Flight = { answer, waiting: 0, control };
  flying.set(url, flight);
  const done = () => drop(url, flight);
  answer.then(done, done);
  return flight;
}

function drop(url: string, flight: Flight): void {
  if (flying.get(url) === flight) flying.delete(url);
}

/** A change was sent: what is on its way may be of the time before. */
export function changed(): void {
  flying.clear();
}
