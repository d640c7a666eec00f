// A line without axes, for a glance at how a number moved.
import { useMachine } from "../state/machine";
import { useQuery } from "./data";
import { useSeen } from "./panel";

export function Spark({ expr, label }: { expr: string; label: string }) {
  const { window: w } = useMachine();
  const [ref, seen] = useSeen();
  const { data } = useQuery(expr, null, 1, w, seen);
  const values = data?.series[0]?.values ?? [];
  const max = Math.max(...values.map((v) => v ?? 0), Number.MIN_VALUE);
  const x = (i: number) => (i / Math.max(1, values.length - 1)) * 200;
  // A gap lifts the pen.
  const path = values.map((v, i) => (v === null ? "" : `${values[i - 1] == null ? "M" : "L"}${x(i).toFixed(1)} ${(26 - (v / max) * 24).toFixed(1)}`)).join("");
  return (
    <div ref={ref} className="spark">
      {path !== "" && (
        <svg viewBox="0 0 200 28" width="100%" height="28" preserveAspectRatio="none" role="img" aria-label={`${label}, over the window`}>
          <path d={path} fill="none" stroke="var(--series-0)" strokeWidth="1.5" vectorEffect="non-scaling-stroke" />
        </svg>
      )}
    </div>
  );
}
