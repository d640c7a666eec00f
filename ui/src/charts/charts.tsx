// The charts that pages are made of.
import type { ReactNode } from "react";
import type { Unit } from "../format/number";
import type { Counter, Match } from "../query/promql";
import { useMachine } from "../state/machine";
import type { Place } from "../state/place";
import { useLines, useQuery, useTop, type Line, type Naming } from "./data";
import { Panel, useSeen } from "./panel";
import type { TEEChart } from "./tee";

interface Common {
  title: string;
  unit: Unit;
  height?: number;
  /** The area below the lines is tinted. */
  area?: boolean;
  /** Lines stand on top of each other. */
  stack?: boolean;
  tools?: ReactNode;
  target?: (name: string) => Partial<Place>;
}

/** The names with the most events, and the others as one line. */
export function TopChart({ counter, by, matches, k = 5, filtered = true, ...rest }: Common & { counter: Counter; by: string; matches: Match[]; k?: number; filtered?: boolean }) {
  const [ref, seen] = useSeen();
  const data = useTop(counter, by, matches, k, useMachine().window, seen);
  return (
    <div ref={ref}>
      <Panel {...rest} filtered={filtered} metrics={[counter.metric]} data={data} />
    </div>
  );
}

/** Fixed lines, each with its query. */
export function LinesChart({ lines, metrics, ...rest }: Common & { lines: Line[]; metrics: string[] }) {
  const [ref, seen] = useSeen();
  const data = useLines(lines, useMachine().window, seen);
  return (
    <div ref={ref}>
      <Panel {...rest} metrics={metrics} data={data} />
    </div>
  );
}

/** One query, a line per value of a label. */
export function QueryChart({ expr, by, most = 8, metrics, ...rest }: Common & { expr: string; by: Naming; most?: number; metrics: string[] }) {
  const [ref, seen] = useSeen();
  const data = useQuery(expr, by, most, useMachine().window, seen);
  const folded = data.data?.folded ?? 0;
  return (
    <div ref={ref}>
      <Panel {...rest} metrics={metrics} data={data} note={folded > 0 && <p className="note">{folded} more series, with smaller averages, are not drawn.</p>} />
    </div>
  );
}

/** A chart of the list of trusted execution environments. */
export function TEEPanel({ chart: { title, unit, metrics, lines, expr, by }, height }: { chart: TEEChart; height?: number }) {
  const common = { title, unit, metrics, ...(height ? { height } : {}) };
  return lines ? <LinesChart {...common} lines={lines} /> : <QueryChart {...common} expr={expr ?? ""} by={by ?? null} />;
}
