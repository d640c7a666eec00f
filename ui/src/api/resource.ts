// One hook for everything that is fetched: it keeps the old data while the new
// is on its way, and drops an answer that came too late.
import { useCallback, useEffect, useRef, useState } from "react";

export interface Resource<T> {
  data: T | null;
  /** The data is of an earlier key, or there is none yet. */
  loading: boolean;
  error: string | null;
  retry: () => void;
}

/** Fetches whenever key changes; a null key fetches nothing and keeps what is there. */
export function useResource<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const [data, setData] = useState<T | null>(null);
  const [done, setDone] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [attempt, setAttempt] = useState(0);
  const loader = useRef(load);
  loader.current = load;
  useEffect(() => {
    if (key === null) return;
    const control = new AbortController();
    loader.current(control.signal).then(
      (d) => {
        if (control.signal.aborted) return;
        setData(d);
        setError(null);
        setDone(key);
      },
      (e: unknown) => {
        if (control.signal.aborted) return;
        setError(e instanceof Error ? e.message : String(e));
        setDone(key);
      },
    );
    return () => control.abort();
  }, [key, attempt]);
  const retry = useCallback(() => setAttempt((n) => n + 1), []);
  return { data, loading: key !== null && done !== key, error, retry };
}
