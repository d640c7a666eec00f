// The box around a chart: title, menu, legend, and what to say when there is
// nothing to draw.
import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import type { Resource } from "../api/resource";
import { formatValue, type Unit } from "../format/number";
import { formatLength, formatMoment } from "../format/time";
import { Problem } from "../frame/problem";
import { Remarks } from "../frame/remarks";
import { others } from "../query/promql";
import { toCSV } from "../query/series";
import { useMachine } from "../state/machine";
import type { Place } from "../state/place";
import { usePlace } from "../state/use-place";
import { useScheme } from "../state/use-theme";
import { emptyReason } from "../words/empty";
import { Sentence } from "../words/term";
import { useBand } from "./band";
import { cursorTime, setCursorTime } from "./cursor";
import type { ChartData } from "./data";
import { Legend } from "./legend";
import { marksOf, MarkLine } from "./marks";
import { ChartMenu } from "./menu";
import { strokes } from "./palette";
import { Plot } from "./plot";

/** What every panel is told, whatever it draws. */
export interface PanelProps {
  /** What is drawn, with its unit in words. */
  title: string;
  /** The metrics behind it: their sources explain an empty chart. */
  metrics: string[];
  height?: number;
  /** The chart obeys the process filter, so the filter can be why it is empty. */
  filtered?: boolean;
  /** Says in full what limits the values. */
  remarksOpen?: boolean;
  /** Stands beside the menu. */
  tools?: ReactNode;
}

interface BoxProps extends PanelProps {
  data: Resource<{ expr: string; warnings: string[] }>;
  /** There is something to see. */
  drawn: boolean;
  csv: () => string;
  /** Why nothing is drawn, where the panel knows it better. */
  empty?: string | undefined;
  children: ReactNode;
}

/** A panel around anything that is drawn from a query. */
export function PanelBox({ title, metrics, height = 150, filtered = false, remarksOpen = false, tools, data, drawn, csv, empty, children }: BoxProps) {
  const { process } = usePlace();
  const { sources, window: w } = useMachine();
  const box = useRef<HTMLElement>(null);
  const there = data.data;
  return (
    <section className="panel" ref={box} aria-label={title} data-state={drawn ? "drawn" : data.error ? "error" : there ? "empty" : "loading"}>
      <header className="panel-head">
        <h3>
          <Sentence text={title} />
        </h3>
        {tools}
        <ChartMenu title={title} expr={there?.expr ?? null} csv={csv} box={box} />
      </header>
      <Remarks metrics={metrics} warnings={there?.warnings ?? []} open={remarksOpen} />
      {data.error && <Problem message={data.error} retry={data.retry} stale={drawn} />}
      {drawn ? (
        <div className={data.loading ? "panel-body dimmed" : "panel-body"}>{children}</div>
      ) : (
        !data.error && (
          <p className="empty" style={{ minHeight: height }}>
            {there ? <Sentence text={empty ?? emptyReason({ sources: sources.data, metrics, process: filtered ? process : "", window: w })} /> : `Reading the last ${formatLength(w.to - w.from)}.`}
          </p>
        )
      )}
    </section>
  );
}

interface Props extends PanelProps {
  unit: Unit;
  data: Resource<ChartData>;
  target?: (name: string) => Partial<Place>;
  /** The area below the lines is tinted. */
  area?: boolean;
  note?: ReactNode;
}

/** A panel of lines over time. */
export function Panel({ unit, data, target, area = false, note, ...box }: Props) {
  const { title, height = 150 } = box;
  const scheme = useScheme(usePlace().theme);
  const { window: w, annotations } = useMachine();
  const [spoken, setSpoken] = useState("");
  const chart = data.data;
  const names = JSON.stringify(chart?.series.map((s) => s.name) ?? []);
  const lineStrokes = useMemo(() => strokes(JSON.parse(names) as string[], chart?.fixed), [names, chart?.fixed]);
  const marks = useMemo(() => marksOf(annotations.data, w), [annotations.data, w]);

  const drawn = chart !== null && chart.series.some((s) => s.values.some((v) => v !== null));

  const band = useBand(box.metrics, unit, drawn);

  const onKey = (e: KeyboardEvent) => {
    if (!chart || e.target !== e.currentTarget) return;
    const { grid, series } = chart;
    const now = cursorTime() ?? grid.at(-1) ?? 0;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (e.key === "Escape") return setCursorTime(null);
    if (by === undefined) return;
    e.preventDefault();
    const i = Math.max(0, Math.min(grid.length - 1, Math.round((now - grid[0]!) / (grid[1]! - grid[0]!)) + by));
    setCursorTime(grid[i]!);
    const values = series.map((s) => `${s.name === others ? "others" : s.name} ${formatValue(s.values[i], unit)}`);
    setSpoken(`${formatMoment(grid[i]!, w.to - w.from)}: ${values.join(", ")}`);
  };

  return (
    <PanelBox {...box} data={data} drawn={drawn} csv={() => (chart ? toCSV(chart.grid, chart.series) : "")}>
      {chart && (
        <>
          <div className="plot" role="group" tabIndex={0} aria-label={`Chart: ${title}, ${formatLength(w.to - w.from)}. Left and right arrow read values.`} onKeyDown={onKey} onBlur={() => setCursorTime(null)}>
            <Plot grid={chart.grid} series={chart.series} strokes={lineStrokes} unit={unit} height={height} scheme={scheme} area={area} marks={marks} band={band} />
          </div>
          <p className="hidden" aria-live="polite">{spoken}</p>
          <MarkLine marks={marks} />
          <Legend caption={title} data={chart} strokes={lineStrokes} unit={unit} target={target} />
          {band && <p className="note">The band is the 95 % interval of the source's total. Processes with few events are less certain than it shows.</p>}
          {note}
        </>
      )}
    </PanelBox>
  );
}

/** True once the element has come near the visible part of the page: charts
 * further down ask the server for nothing, and none asks before the machine is known. */
export function useSeen(): [React.RefObject<HTMLDivElement | null>, boolean] {
  const { window: w } = useMachine();
  const ref = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const el = ref.current;
    if (!el) return;
    const watch = new IntersectionObserver(([entry]) => setSeen(entry?.isIntersecting ?? false), { rootMargin: "300px" });
    watch.observe(el);
    return () => watch.disconnect();
  }, []);
  return [ref, seen && w.instance !== ""];
}
