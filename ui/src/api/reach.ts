// Whether the monitor answers at all. The page reports it once, not at every element that it shows.
import { useSyncExternalStore } from "react";

/** The error of a request without an answer. */
export const unanswered = "The monitor does not answer. Is it still running?";

const listeners = new Set<() => void>();
let lostAt: number | null = null;

function set(at: number | null): void {
  if (at === lostAt) return;
  lostAt = at;
  for (const l of listeners) l();
}

/** Notes an answer, of any kind. */
export function answered(): void {
  set(null);
}

/** Notes that there was none. */
export function lost(): void {
  set(lostAt ?? Date.now() / 1000);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Since when the monitor has not answered, in Unix seconds; null while it does. */
export function lostSince(): number | null {
  return lostAt;
}

/** The same for components. */
export function useLost(): number | null {
  return useSyncExternalStore(subscribe, lostSince);
}
