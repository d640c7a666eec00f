// Shared by all pages: the machine, its sources, the findings, the cost, and the
// window of all charts.
import { createContext, useContext, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { asking, getDocument } from "../api/client";
import { useLost } from "../api/reach";
import { useResource, type Resource } from "../api/resource";
import type { Annotation, Findings, FleetPage, Overhead, Platform, Source } from "../api/types";
import { idle, queryAt } from "../query/feed";
import { own, select } from "../query/promql";
import { readings } from "../query/watched";
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
  /** All machines in numbers, without their list. */
  fleet: Resource<FleetPage>;
  /** Changes with every refresh; part of the key of data read "now". */
  tick: number;
  refresh: () => void;
}

const Context = createContext<Machine | null>(null);

export function useMachine(): Machine {
  const m = useContext(Context);
  if (!m) throw new Error("useMachine outside of MachineProvider");
  return m;
}

/** The provider of one machine: for another one it must be another element, so no answer about the one is shown as the
 * other's. */
export function MachineProvider({ children }: { children: ReactNode }) {
  const place = usePlace();
  const [tick, setTick] = useState(() => Date.now() / 1000);
  const [changes, setChanges] = useState(0);
  const refresh = () => {
    setChanges((n) => n + 1);
    setTick(Date.now() / 1000);
  };

  useEffect(() => {
    if (place.refresh === 0) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let ended = false;
    // The next refresh waits for the answers to the last one, and then for as long as they took, so
    // a slow monitor gets fewer requests.
    const next = async () => {
      const took = await idle();
      if (ended) return;
      timer = setTimeout(() => {
        // A hidden tab sends no requests.
        if (!document.hidden) setTick(Date.now() / 1000);
        void next();
      }, Math.max(place.refresh * 1000, 2 * took));
    };
    void next();
    const onShow = () => !document.hidden && setTick(Date.now() / 1000);
    document.addEventListener("visibilitychange", onShow);
    return () => {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onShow);
    };
  }, [place.refresh]);

  // A monitor that answers again may be another one: everything is reloaded.
  const lost = useLost() !== null;
  const wasLost = useRef(false);
  useEffect(() => {
    if (wasLost.current && !lost) refresh();
    wasLost.current = lost;
  }, [lost]);

  // None of these changes faster: rules are evaluated every 15 s, and one request a minute for the
  // machine notices a restart. Changes made here are reloaded at once.
  const every = (seconds: number) => `${changes} ${Math.floor(tick / seconds)}`;
  const about = (name: string) => (place.machine ? asking(name, { ...place.machine }) : name);
  const platform = useResource<Platform>(`platform ${every(60)}`, (s) => getDocument(about("platform"), s));
  const sources = useResource<Source[]>(`sources ${every(30)}`, async (s) => (await getDocument<Source[] | null>(about("sources"), s)) ?? []);
  const overhead = useResource<Overhead>(`overhead ${every(30)}`, (s) => getDocument(about("overhead"), s));
  const fleet = useResource<FleetPage>(`fleet ${every(60)}`, (s) => getDocument(asking("machines", { limit: 1 }), s));
  // Without a machine, findings would be those of all.
  const named = { job: platform.data?.job ?? "", instance: platform.data?.instance ?? "" };
  const findings = useResource<Findings>(named.instance === "" ? null : `findings ${every(15)}`, (s) => getDocument(asking("findings", named), s));
  const first = useResource<number | null>(place.range === "all" && !place.fixed && named.instance !== "" ? "first" : null, async () => {
    const { rows } = await queryAt(`min(min_over_time(timestamp(${select("teescope_source_up", own(named))})[90d:6h]))`, Date.now() / 1000);
    return rows[0] ? Number(rows[0].value[1]) : null;
  });

  const started = platform.data?.started ? Date.parse(platform.data.started) / 1000 : null;
  const made = windowOf(place, tick, first.data, {
    started: Number.isNaN(started) ? null : started,
    ...named,
    interval: platform.data?.interval ?? 5,
  });
  // A young monitor has no data for most of its window, unless an earlier one left some.
  const young = made.live && made.instance !== "" && started !== null && started > made.from;
  const seen = useResource<number>(young ? `${made.from} ${made.to} ${made.step}` : null, async () => {
    const first = (await readings(made)).findIndex((v) => v !== null);
    return first < 0 ? made.from : made.from + first * made.step;
  });
  const begin = young && seen.data !== null ? Math.max(made.from, Math.min(seen.data, made.to - leastAxis)) : made.from;
  // The same object as long as nothing in it has changed.
  const text = JSON.stringify({ ...made, begin });
  const window = useMemo(() => JSON.parse(text) as Window, [text]);

  const machine: Machine = { platform, sources, findings, overhead, window, annotations: useAnnotations(window), fleet, tick, refresh };
  return <Context value={machine}>{children}</Context>;
}

/** The shortest axis of time in seconds. */
const leastAxis = 60;

function useAnnotations(w: Window): Resource<Annotation[]> {
  const { from, to } = steady(w);
  // The extra minute includes findings that are newer than the last step.
  const name = asking("annotations", { from, to: w.live ? to + 60 : to, job: w.job, instance: w.instance });
  return useResource<Annotation[]>(w.instance === "" ? null : name, async (s) => (await getDocument<Annotation[] | null>(name, s)) ?? []);
}

/** The same machine over a separate window instead of the top bar's, for the charts inside. */
export function WindowProvider({ from, to, children }: { from: number; to: number; children: ReactNode }) {
  const machine = useMachine();
  const { started, job, instance, interval } = machine.window;
  const window = useMemo(() => ({ from, to, step: stepFor(to - from), live: false, started, begin: from, job, instance, interval }), [from, to, started, job, instance, interval]);
  const annotations = useAnnotations(window);
  return <Context value={{ ...machine, window, annotations }}>{children}</Context>;
}
