// One hook for everything that is fetched. The old data stays while the new is loading, and no load
// is abandoned for a newer key: if answers are slower than questions, a chart would never get one.
import { useCallback, useEffect, useRef, useState } from "react";

export interface Resource<T> {
  data: T | null;
  /** The data is of an earlier key, or there is none yet. */
  loading: boolean;
  error: string | null;
  retry: () => void;
}

/** The largest number of concurrent loads of one hook: an old one, and one whose key may be of
 * another subject. Newer keys wait, and only the newest of them is loaded. */
const mostLoads = 2;

interface Loads {
  /** The numbers of the loads in progress. */
  open: Set<number>;
  last: number;
  /** The number of the load whose data is shown. */
  shown: number;
  waiting: string | null;
  control: AbortController;
}

/** Fetches whenever key changes; a null key fetches nothing and keeps the present data. */
export function useResource<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const [data, setData] = useState<T | null>(null);
  const [done, setDone] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [attempt, setAttempt] = useState(0);
  const loader = useRef(load);
  loader.current = load;
  const loads = useRef<Loads>(null);

  useEffect(() => {
    const all: Loads = { open: new Set(), last: 0, shown: 0, waiting: null, control: new AbortController() };
    loads.current = all;
    return () => all.control.abort();
  }, []);

  useEffect(() => {
    const all = loads.current;
    if (key === null || !all) return;
    const start = (k: string) => {
      if (all.open.size >= mostLoads) {
        all.waiting = k;
        return;
      }
      const n = ++all.last;
      all.open.add(n);
      all.waiting = null;
      loader
        .current(all.control.signal)
        .then(
          (d) => {
            if (all.control.signal.aborted || n < all.shown) return;
            all.shown = n;
            setData(d);
            setError(null);
            setDone(k);
          },
          (e: unknown) => {
            if (all.control.signal.aborted || n < all.last) return; // a newer load will report
            setError(e instanceof Error ? e.message : String(e));
            setDone(k);
          },
        )
        .finally(() => {
          all.open.delete(n);
          if (all.waiting !== null && !all.control.signal.aborted) start(all.waiting);
        });
    };
    start(key);
  }, [key, attempt]);
  const retry = useCallback(() => setAttempt((n) => n + 1), []);
  return { data, loading: key !== null && done !== key, error, retry };
}
