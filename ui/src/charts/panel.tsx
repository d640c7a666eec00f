// The box around a chart: title, menu, legend, and the reason if there is nothing to draw.
import { useEffect, useId, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import type { Resource } from "../api/resource";
import { formatValue, type Unit } from "../format/number";
import { formatLength, formatMoment } from "../format/time";
import { Guard } from "../frame/guard";
import { Problem } from "../frame/problem";
import { Remarks } from "../frame/remarks";
import { others } from "../query/promql";
import { toCSV } from "../query/series";
import { useMachine } from "../state/machine";
import type { Place } from "../state/place";
import { usePlace, zoomBack, zoomTo } from "../state/use-place";
import { useScheme } from "../state/use-theme";
import { emptyReason, spanWords } from "../words/empty";
import { Sentence } from "../words/term";
import { useBand } from "./band";
import { cursorTime, setCursorTime } from "./cursor";
import type { ChartData } from "./data";
import { Legend } from "./legend";
import { evidentOn, marksOf } from "./marks";
import { ChartMenu } from "./menu";
import { strokes } from "./palette";
import type { Picture } from "./picture";
import { Plot } from "./plot";
import { rowsAt, Tooltip } from "./tooltip";

/** The properties of every panel. */
export interface PanelProps {
  /** What is drawn, with its unit in words. */
  title: string;
  /** The metrics behind it: their sources explain an empty chart. */
  metrics: string[];
  height?: number;
  /** The chart obeys the process filter, so the filter can be why it is empty. */
  filtered?: boolean;
  /** States in full what limits the values; elsewhere the top bar does it for all. */
  remarksOpen?: boolean;
  /** Next to the menu. */
  tools?: ReactNode;
}

/** The height of a chart in pixels: with it, the plot is at least 70 % of its panel. */
const plotHeight = 160;
/** The height of a legend: without one, an empty panel is as high as a drawn one. */
const legendHeight = 22;

/** The place of charts that are not known yet, so the content below does not move. */
export function Places({ count }: { count: number }) {
  return (
    <div className="grid" aria-hidden="true">
      {Array.from({ length: count }, (_, i) => (
        <div key={i} className="panel" style={{ height: panelHeight }} />
      ))}
    </div>
  );
}

/** The height of a panel with its head and edges. */
const panelHeight = plotHeight + legendHeight + 48;

interface BoxProps extends PanelProps {
  data: Resource<{ expr: string; warnings: string[] }>;
  /** There is something to see. */
  drawn: boolean;
  csv: () => string;
  /** The drawing, if it can be exported as a picture. */
  picture?: () => Promise<Picture>;
  /** Why nothing is drawn, if the panel knows it better. */
  empty?: string | undefined;
  children: ReactNode;
}

/** A panel around anything that is drawn from a query. */
export function PanelBox({ title, metrics, height = plotHeight, filtered = false, remarksOpen = false, tools, data, drawn, csv, picture, empty, children }: BoxProps) {
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
        <ChartMenu title={title} expr={there?.expr ?? null} csv={csv} picture={drawn ? picture : undefined} box={box} />
      </header>
      {remarksOpen && <Remarks metrics={metrics} warnings={there?.warnings ?? []} open />}
      {data.error && <Problem message={data.error} retry={data.retry} stale={drawn} />}
      {drawn ? (
        <div className={data.loading ? "panel-body dimmed" : "panel-body"}>
          <Guard what="The chart">{children}</Guard>
        </div>
      ) : (
        !data.error && (
          <p className="empty" style={{ minHeight: height + legendHeight }}>
            {there ? <Sentence text={empty ?? emptyReason({ sources: sources.data, metrics, process: filtered ? process : "", window: w })} /> : `Reading ${spanWords(w)}.`}
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
  /** Lines stand on top of each other. */
  stack?: boolean;
  note?: ReactNode;
}

/** A panel of lines over time. */
export function Panel({ unit, data, target, area = false, stack = false, note, ...box }: Props) {
  const { title, height = plotHeight } = box;
  const id = useId();
  const scheme = useScheme();
  const { subject } = usePlace();
  const { window: w, annotations, findings } = useMachine();
  const [spoken, setSpoken] = useState("");
  const [alone, setAlone] = useState<string | null>(null);
  // The ends of the selection by Shift and arrows: its start, and the cursor.
  const [chosen, setChosen] = useState<[number, number] | null>(null);
  const chart = data.data;
  const names = JSON.stringify(chart?.series.map((s) => s.name) ?? []);
  const lineStrokes = useMemo(() => strokes(JSON.parse(names) as string[], chart?.fixed), [names, chart?.fixed]);
  const metrics = JSON.stringify(box.metrics);
  const expr = chart?.expr ?? "";
  const marks = useMemo(() => {
    const evident = evidentOn(findings.data?.findings ?? [], { subjects: [...(JSON.parse(names) as string[]), subject], metrics: JSON.parse(metrics) as string[], expr });
    return marksOf(annotations.data, w).filter((m) => evident.has(m.id));
  }, [annotations.data, w, findings.data, names, metrics, expr, subject]);
  const selection = useMemo(() => (chosen ? { from: Math.min(...chosen), to: Math.max(...chosen) } : null), [chosen]);

  const drawn = chart !== null && chart.series.some((s) => s.values.some((v) => v !== null));
  const only = chart?.series.some((s) => s.name === alone) ? alone : null;
  const [first, last] = [Math.max(chart?.grid[0] ?? 0, w.begin), chart?.grid.at(-1) ?? 0];

  const band = useBand(box.metrics, unit, drawn);

  const onKey = (e: KeyboardEvent) => {
    if (!chart || e.target !== e.currentTarget) return;
    const { grid } = chart;
    const now = cursorTime() ?? last;
    const step = grid[1]! - grid[0]!;
    const far = e.ctrlKey || e.metaKey ? 10 * step : step;
    const to = { ArrowLeft: now - far, ArrowRight: now + far, Home: first, End: last }[e.key];
    if (to === undefined && !["Enter", "Escape", "Backspace"].includes(e.key)) return;
    e.preventDefault();
    if (e.key === "Enter") {
      // Without a selection, a fifth of the window around the cursor.
      const part = (last - first) / 10;
      zoomTo(selection?.from ?? now - part, selection?.to ?? now + part);
    }
    if (e.key === "Backspace") zoomBack();
    if (to === undefined) {
      setChosen(null);
      return setCursorTime(null);
    }
    const i = Math.round((Math.max(first, Math.min(last, to)) - grid[0]!) / step);
    setChosen(e.shiftKey ? [chosen?.[0] ?? now, grid[i]!] : null);
    setCursorTime(grid[i]!, id);
    const values = rowsAt(chart, i, only).map((r) => `${r.name === others ? "others" : r.name} ${formatValue(r.value, unit)}`);
    setSpoken(`${formatMoment(grid[i]!, w.to - w.from)}: ${values.join(", ")}`);
  };
  const onBlur = () => {
    setChosen(null);
    setCursorTime(null);
  };

  const picture = async (): Promise<Picture> => {
    const { draw } = await import("./picture");
    const style = getComputedStyle(document.documentElement);
    const series = (chart?.series ?? []).filter((s) => only === null || s.name === only);
    return draw({ title, machine: w.instance, grid: chart?.grid ?? [], from: first, to: last, series, strokes: lineStrokes, folded: chart?.folded ?? 0, stack: stack && only === null, unit, band, warnings: chart?.warnings ?? [], token: (name) => style.getPropertyValue(name).trim() });
  };

  return (
    <PanelBox {...box} data={data} drawn={drawn} csv={() => (chart ? toCSV(chart.grid, chart.series) : "")} picture={picture}>
      {chart && (
        <>
          <div className="plot" role="group" tabIndex={0} aria-label={`Chart: ${title}, ${formatLength(w.to - w.from)}. Arrows, Home and End read values; with Shift they choose a part; Enter zooms in, Backspace out.`} onKeyDown={onKey} onBlur={onBlur}>
            <Plot grid={chart.grid} series={chart.series} strokes={lineStrokes} unit={unit} height={height} scheme={scheme} area={area} stack={stack} marks={marks} band={band} id={id} begin={w.begin} only={only} onPick={(name) => setAlone(name === only ? null : name)} selection={selection} />
            <Tooltip id={id} data={chart} strokes={lineStrokes} unit={unit} band={band} marks={marks} only={only} from={first} to={last} />
          </div>
          <p className="hidden" aria-live="polite">{spoken}</p>
          {marks.length > 0 && <p className="hidden">Findings in this window: {marks.map((m) => m.title).join(" ")}</p>}
          <Legend caption={title} data={chart} strokes={lineStrokes} unit={unit} target={target} only={only} isolate={setAlone} />
          {note}
        </>
      )}
    </PanelBox>
  );
}

/** True once the element is near the visible part of the page: charts further down send no requests,
 * and none does before the machine is known. */
export function useSeen<T extends HTMLElement = HTMLDivElement>(): [React.RefObject<T | null>, boolean] {
  const { window: w } = useMachine();
  const ref = useRef<T>(null);
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
