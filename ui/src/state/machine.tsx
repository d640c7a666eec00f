// Shared by all pages: the machine, its sources, the findings, the cost, and the
// window of all charts.
import { createContext, useContext, useEffect, useMemo, useState, type ReactNode } from "react";
import { asking, getDocument, queryAt } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import type { Annotation, Findings, Overhead, Platform, Source } from "../api/types";
import { usePlace } from "./use-place";
import { steady, stepFor, windowOf, type Window } from "./window";

export interface Machine {
  platform: Resource<Platform>;
  sources: Resource<Source[]>;
  findings: Resource<Findings>;
  overhead: Resource<Overhead>;
  window: Window;
  /** Marks on the charts of the window. */
  annotations: Resource<Annotation[]>;
  /** Changes with every refresh; part of the key of what is read "now". */
  tick: number;
  refresh: () => void;
}

const Context = createContext<Machine | null>(null);

export function useMachine(): Machine {
  const m = useContext(Context);
  if (!m) throw new Error("useMachine outside of MachineProvider");
  return m;
}

export function MachineProvider({ children }: { children: ReactNode }) {
  const place = usePlace();
  const [tick, setTick] = useState(() => Date.now() / 1000);
  const refresh = () => setTick(Date.now() / 1000);

  useEffect(() => {
    if (place.refresh === 0) return;
    const timer = setInterval(() => {
      // A hidden tab asks nothing.
      if (!document.hidden) refresh();
    }, place.refresh * 1000);
    const onShow = () => !document.hidden && refresh();
    document.addEventListener("visibilitychange", onShow);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", onShow);
    };
  }, [place.refresh]);

  // The machine changes rarely; asking once a minute notices a restart.
  const platform = useResource<Platform>(`platform ${Math.floor(tick / 60)}`, (s) => getDocument("platform", s));
  const sources = useResource<Source[]>(`sources ${tick}`, async (s) => (await getDocument<Source[] | null>("sources", s)) ?? []);
  const findings = useResource<Findings>(`findings ${tick}`, (s) => getDocument("findings", s));
  const overhead = useResource<Overhead>(`overhead ${tick}`, (s) => getDocument("overhead", s));
  const first = useResource<number | null>(place.range === "all" && !place.fixed ? "first" : null, async (s) => {
    const { rows } = await queryAt("min(min_over_time(timestamp(teescope_source_up)[90d:6h]))", Date.now() / 1000, s);
    return rows[0] ? Number(rows[0].value[1]) : null;
  });

  const started = platform.data?.started ? Date.parse(platform.data.started) / 1000 : null;
  const made = windowOf(place, tick, first.data, {
    started: Number.isNaN(started) ? null : started,
    instance: platform.data?.hostname ?? "",
    interval: platform.data?.interval ?? 5,
  });
  const window = useMemo(() => made, [made.from, made.to, made.step, made.live, made.started, made.instance, made.interval]);

  const machine: Machine = { platform, sources, findings, overhead, window, annotations: useAnnotations(window), tick, refresh };
  return <Context value={machine}>{children}</Context>;
}

function useAnnotations(w: Window): Resource<Annotation[]> {
  const { from, to } = steady(w);
  // The extra minute includes findings that are newer than the last step.
  const name = asking("annotations", { from, to: w.live ? to + 60 : to });
  return useResource<Annotation[]>(w.instance === "" ? null : name, async (s) => (await getDocument<Annotation[] | null>(name, s)) ?? []);
}

/** The same machine over a window of its own instead of the top bar's: charts
 * inside look at that one. */
export function WindowProvider({ from, to, children }: { from: number; to: number; children: ReactNode }) {
  const machine = useMachine();
  const { started, instance, interval } = machine.window;
  const window = useMemo(() => ({ from, to, step: stepFor(to - from), live: false, started, instance, interval }), [from, to, started, instance, interval]);
  const annotations = useAnnotations(window);
  return <Context value={{ ...machine, window, annotations }}>{children}</Context>;
}
