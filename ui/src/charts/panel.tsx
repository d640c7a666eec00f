// The box around a chart: title, menu, legend, and what to say when there is
// nothing to draw.
import { Menu } from "@mantine/core";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import type { Resource } from "../api/resource";
import { formatValue, type Unit } from "../format/number";
import { formatLength, formatMoment } from "../format/time";
import { IconMenu } from "../frame/icons";
import { Problem } from "../frame/problem";
import { Remarks } from "../frame/remarks";
import { others } from "../query/promql";
import { toCSV } from "../query/series";
import { useMachine } from "../state/machine";
import type { Place } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { useScheme } from "../state/use-theme";
import { emptyReason } from "../words/empty";
import { Sentence } from "../words/term";
import { cursorTime, setCursorTime } from "./cursor";
import type { ChartData } from "./data";
import { Legend } from "./legend";
import { strokes } from "./palette";
import { Plot } from "./plot";

interface Props {
  /** What is drawn, with its unit in words. */
  title: string;
  unit: Unit;
  /** The metrics behind it: their sources explain an empty chart. */
  metrics: string[];
  data: Resource<ChartData>;
  target?: (name: string) => Partial<Place>;
  height?: number;
  /** The chart obeys the process filter, so the filter can be why it is empty. */
  filtered?: boolean;
  note?: ReactNode;
  /** Says in full what limits the values. */
  remarksOpen?: boolean;
}

export function Panel({ title, unit, metrics, data, target, height = 150, filtered = false, note, remarksOpen = false }: Props) {
  const place = usePlace();
  const scheme = useScheme(place.theme);
  const { sources, window: w } = useMachine();
  const box = useRef<HTMLElement>(null);
  const [spoken, setSpoken] = useState("");
  const chart = data.data;
  const names = chart?.series.map((s) => s.name).join("\n") ?? "";
  const lineStrokes = useMemo(() => strokes(names === "" ? [] : names.split("\n"), chart?.fixed), [names, chart?.fixed]);

  const drawn = chart !== null && chart.series.some((s) => s.values.some((v) => v !== null));

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
    <section className="panel" ref={box} aria-label={title} data-state={drawn ? "drawn" : data.error ? "error" : chart ? "empty" : "loading"}>
      <header className="panel-head">
        <h3>
          <Sentence text={title} />
        </h3>
        <ChartMenu title={title} chart={chart} box={box} />
      </header>
      <Remarks metrics={metrics} warnings={chart?.warnings ?? []} open={remarksOpen} />
      {data.error && <Problem message={data.error} retry={data.retry} stale={drawn} />}
      {drawn && chart ? (
        <div className={data.loading ? "panel-body dimmed" : "panel-body"}>
          <div className="plot" role="group" tabIndex={0} aria-label={`Chart: ${title}, ${formatLength(w.to - w.from)}. Left and right arrow read values.`} onKeyDown={onKey} onBlur={() => setCursorTime(null)}>
            <Plot grid={chart.grid} series={chart.series} strokes={lineStrokes} unit={unit} height={height} scheme={scheme} />
          </div>
          <p className="hidden" aria-live="polite">{spoken}</p>
          <Legend caption={title} data={chart} strokes={lineStrokes} unit={unit} target={target} />
          {note}
        </div>
      ) : (
        !data.error && (
          <p className="empty" style={{ minHeight: height }}>
            {chart ? <Sentence text={emptyReason({ sources: sources.data, metrics, process: filtered ? place.process : "", window: w })} /> : `Reading the last ${formatLength(w.to - w.from)}.`}
          </p>
        )
      )}
    </section>
  );
}

function ChartMenu({ title, chart, box }: { title: string; chart: ChartData | null; box: React.RefObject<HTMLElement | null> }) {
  const download = () => {
    if (!chart) return;
    const url = URL.createObjectURL(new Blob([toCSV(chart.grid, chart.series)], { type: "text/csv" }));
    const a = document.createElement("a");
    a.href = url;
    a.download = `${title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}.csv`;
    a.click();
    URL.revokeObjectURL(url);
  };
  return (
    <Menu position="bottom-end" shadow="md" width={190}>
      <Menu.Target>
        <button type="button" className="icon-button" aria-label={`Menu of the chart ${title}`} disabled={!chart}>
          <IconMenu />
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => chart && move({ page: "explore", expr: chart.expr, subject: "" })}>Open the query</Menu.Item>
        <Menu.Item onClick={() => chart && void navigator.clipboard?.writeText(chart.expr)}>Copy the query</Menu.Item>
        <Menu.Item onClick={download}>Save as CSV</Menu.Item>
        <Menu.Item onClick={() => (document.fullscreenElement ? void document.exitFullscreen() : void box.current?.requestFullscreen())}>Full screen, or back</Menu.Item>
      </Menu.Dropdown>
    </Menu>
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
