// A line without axes that shows how a number changed.
import { useMachine } from "../state/machine";
import { useQuery } from "./data";
import { useSeen } from "./panel";

export function Spark({ expr, label, colour }: { expr: string; label: string; colour?: string }) {
  const { window: w } = useMachine();
  const [ref, seen] = useSeen();
  const { data } = useQuery(expr, null, 1, w, seen);
  return (
    <div ref={ref} className="spark">
      <SparkLine values={data?.series[0]?.values ?? []} label={`${label}, over the window`} {...(colour ? { colour } : {})} />
    </div>
  );
}

/** The line of these values, from 0 to the largest or to top. */
export function SparkLine({ values, label, top = 0, colour = "--series-0" }: { values: (number | null)[]; label: string; top?: number; colour?: string }) {
  const max = Math.max(...values.map((v) => v ?? 0), top, Number.MIN_VALUE);
  const x = (i: number) => (i / Math.max(1, values.length - 1)) * 200;
  // A gap interrupts the line.
  const path = values.map((v, i) => (v === null ? "" : `${values[i - 1] == null ? "M" : "L"}${x(i).toFixed(1)} ${(26 - (v / max) * 24).toFixed(1)}`)).join("");
  if (path === "") return null;
  return (
    <svg viewBox="0 0 200 28" width="100%" height="28" preserveAspectRatio="none" role="img" aria-label={label}>
      <path d={path} fill="none" stroke={`var(${colour})`} strokeWidth="1.5" vectorEffect="non-scaling-stroke" />
    </svg>
  );
}
