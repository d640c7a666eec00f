// The place as a React value. There is one history, the browser's.
import { useSyncExternalStore } from "react";
import { formatPlace, parsePlace, type Place } from "./place";

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

/** Changes the place. "push" leaves a step for the browser's back button;
 * "replace" is for what changes while typing. */
export function move(change: Partial<Place>, how: "push" | "replace" = "push"): void {
  const next = { ...here(), ...change };
  const url = window.location.pathname + formatPlace(next);
  if (url === window.location.pathname + window.location.search) return;
  window.history[how === "push" ? "pushState" : "replaceState"](null, "", url);
  current = next;
  for (const l of listeners) l();
}

export function usePlace(): Place {
  return useSyncExternalStore(subscribe, here);
}

// Windows that a drag on a chart replaced, for the way back.
const zoomedFrom: Pick<Place, "fixed" | "range">[] = [];
const mostSteps = 50;

/** Narrows the window to what was dragged over. */
export function zoomTo(from: number, to: number): void {
  const p = here();
  zoomedFrom.push({ fixed: p.fixed, range: p.range });
  if (zoomedFrom.length > mostSteps) zoomedFrom.shift();
  move({ fixed: { from: Math.floor(from), to: Math.ceil(to) } });
}

/** Goes back to the window before the last zoom, or to the live one. */
export function zoomBack(): void {
  move(zoomedFrom.pop() ?? { fixed: null });
}
