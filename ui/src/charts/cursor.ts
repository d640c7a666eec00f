// The time under the pointer, shared by all charts of the page, and the chart that it is on.
import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let time: number | null = null;
let owner: string | null = null;
let frame = 0;

export function subscribeCursor(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function cursorTime(): number | null {
  return time;
}

/** Moves the cursor of every chart, at most once a frame. The chart that moves it, if any, shows all
 * its values there. */
export function setCursorTime(t: number | null, on: string | null = null): void {
  if (t === null) on = null;
  if (t === time && on === owner) return;
  [time, owner] = [t, on];
  if (frame !== 0) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    for (const l of listeners) l();
  });
}

export function useCursorTime(): number | null {
  return useSyncExternalStore(subscribeCursor, cursorTime);
}

/** The time under the cursor if it is on this chart. */
export function useOwnCursor(id: string): number | null {
  return useSyncExternalStore(subscribeCursor, () => (owner === id ? time : null));
}
