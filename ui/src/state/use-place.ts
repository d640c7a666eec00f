// The place as a React value. There is one history, the browser's.
import { useSyncExternalStore } from "react";
import { formatPlace, parsePlace, shortest, type Place } from "./place";

const listeners = new Set<() => void>();
let current: Place | null = null;

function subscribe(listener: () => void): () => void {
  const onPop = () => {
    current = null;
    listener();
  };
  listeners.add(listener);
  window.addEventListener("popstate", onPop);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("popstate", onPop);
  };
}

/** The place that the address bar shows. */
export function here(): Place {
  current ??= parsePlace(window.location.search);
  return current;
}

/** Changes the place. "push" adds a step for the browser's back button; "replace" is for changes
 * while typing. */
export function move(change: Partial<Place>, how: "push" | "replace" = "push"): void {
  const [p, next] = [here(), { ...here(), ...change }];
  const sameWindow = p.range === next.range && p.fixed?.from === next.fixed?.from && p.fixed?.to === next.fixed?.to;
  go(change, how, sameWindow ? zooms() : []);
}

function go(change: Partial<Place>, how: "push" | "replace", zoomedFrom: Zoom[]): void {
  const next = { ...here(), ...change };
  const url = window.location.pathname + formatPlace(next);
  if (url === window.location.pathname + window.location.search) return;
  window.history[how === "push" ? "pushState" : "replaceState"]({ zoomedFrom }, "", url);
  current = next;
  for (const l of listeners) l();
}

export function usePlace(): Place {
  return useSyncExternalStore(subscribe, here);
}

/** A window that a drag on a chart replaced, for the way back. */
type Zoom = Pick<Place, "fixed" | "range">;
const mostSteps = 50;

/** The windows that were replaced before this one. They belong to this step of the browser's
 * history, so its back button restores them. */
function zooms(): Zoom[] {
  return (window.history.state as { zoomedFrom?: Zoom[] } | null)?.zoomedFrom ?? [];
}

/** Narrows the window to the selection on a chart, widened to the shortest window if needed. */
export function zoomTo(from: number, to: number): void {
  const p = here();
  const more = Math.max(0, (shortest - (to - from)) / 2);
  go({ fixed: { from: Math.floor(from - more), to: Math.ceil(to + more) } }, "push", [...zooms(), { fixed: p.fixed, range: p.range }].slice(-mostSteps));
}

/** Goes back to the window before the last zoom, or to the live one. */
export function zoomBack(): void {
  const all = zooms();
  go(all.at(-1) ?? { fixed: null }, "push", all.slice(0, -1));
}
