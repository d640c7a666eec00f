// The time under the pointer, shared by all charts of the page.
import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let time: number | null = null;
let frame = 0;

export function subscribeCursor(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function cursorTime(): number | null {
  return time;
}

/** Moves the cursor of every chart, once a frame at most. */
export function setCursorTime(t: number | null): void {
  if (t === time) return;
  time = t;
  if (frame !== 0) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    for (const l of listeners) l();
  });
}

export function useCursorTime(): number | null {
  return useSyncExternalStore(subscribeCursor, cursorTime);
}
