// All cost ratios of a document with their intervals on one logarithmic axis,
// around 1 and the margin. Published bands are grey.
import type { ResultComparison, ResultExperiment, ResultReference } from "../api/types";
import { formatChange, formatTimes } from "../format/measure";
import { formatValue } from "../format/number";
import { armsText, costText, kindOf, looks } from "../words/benchmark";
import { placeOf, ratioAxis, ticksOf, type Axis } from "./axis";
import { caseIds, descOf, forestRows, metricLabel } from "./document";
import { AxisHead, Grid, Mark, PlotTable, Swatch, VerdictChip } from "./marks";

const most = 40;

/** Ticks of a ratio: changes while they are near 1, factors when they are not. */
export function ratioTicks(a: Axis): { at: number; text: string }[] {
  const near = a.lo > 0.6 && a.hi < 1.6;
  return ticksOf(a, 4).map((v) => ({ at: placeOf(a, v), text: !near ? `${Number(v.toPrecision(3))}x` : Math.abs(v - 1) < 1e-9 ? "same" : formatChange(v) }));
}

/** What the rows differ in. */
export function forestLabel(e: ResultExperiment, c: ResultComparison): string {
  const many = (e.comparisons ?? []).some((o) => o.treatment !== c.treatment || o.baseline !== c.baseline);
  const base = e.environments?.[0]?.env_id;
  const parts = [metricLabel(e, c.metric)];
  if (caseIds(e).length > 1 && c.case !== "") parts.push(c.case);
  if (many) parts.push(c.baseline === base ? c.treatment : armsText(c));
  return parts.join(", ");
}

export function Forest({ doc }: { doc: ResultExperiment }) {
  const all = forestRows(doc);
  const rows = all.slice(0, most);
  const costs = rows.flatMap((c) => (c.cost_ratio !== null && c.cost_ratio > 0 ? [c.cost_ratio] : []));
  if (costs.length === 0) return <p className="dim">No ratio to draw: each comparison below says why.</p>;
  const margin = Math.max(0, ...rows.map((c) => c.margin));
  const bands = (doc.references ?? []).filter((r) => r.unit === "cost_ratio" && r.low > 0 && r.high >= r.low);
  // A very wide interval or band ends in an arrow, so that the others can be read.
  const [lowest, highest] = [Math.min(1, ...costs), Math.max(1, ...costs)];
  const ends = rows.flatMap((c) => (c.cost_ci_low !== null && c.cost_ci_high !== null ? [Math.max(c.cost_ci_low, lowest / 2), Math.min(c.cost_ci_high, highest * 2)] : []));
  const published = bands.flatMap((r) => [Math.max(r.low, lowest / 3), Math.min(r.high, highest * 3)]);
  const axis = ratioAxis([...costs, ...ends, ...published], margin);
  const ticks = ratioTicks(axis);
  return (
    <>
      <PlotTable
        caption="Cost ratio of each comparison, with its interval"
        heads={["Metric", "Cost [interval]", "Verdict"]}
        axis={<AxisHead ticks={ticks} title="← better · cost ratio, logarithmic · worse →" />}
        note={
          <>
            {margin > 0 && (
              <span>
                <i className="key key-margin" /> margin ±{formatValue(margin, "ratio")}
              </span>
            )}
            {bands.length > 0 && (
              <span>
                <i className="key key-band" /> published, in other places
              </span>
            )}
            {[...new Set(rows.map(kindOf))].map((k) => (
              <span key={k}>
                <Swatch shape={looks[k].shape} tone={looks[k].tone} /> {looks[k].word}
              </span>
            ))}
          </>
        }
        rows={rows.map((c, i) => {
          const cost = costText(c, descOf(doc, c.metric).better);
          const refused = kindOf(c) === "invalid";
          return {
            key: `${c.metric} ${c.case} ${c.treatment} ${c.baseline} ${i}`,
            strong: c.primary,
            label: forestLabel(doc, c),
            plot: <Interval c={c} axis={axis} ticks={ticks} bands={bandsOf(doc, c, bands)} title={`${forestLabel(doc, c)}: ${cost.raw}`} />,
            figure: (
              <span className={refused ? "dim" : undefined} title={refused ? `refused: ${cost.raw}` : cost.raw}>
                {cost.text}
                {cost.missing !== "" && <span className="small dim">: {cost.missing}</span>}
              </span>
            ),
            last: <VerdictChip kind={kindOf(c)} material={c.material} />,
          };
        })}
      />
      {all.length > rows.length && <p className="note">{all.length - rows.length} more are in the table below.</p>}
    </>
  );
}

/** Published ratios of the same TEE stand behind our own primary ones. */
function bandsOf(e: ResultExperiment, c: ResultComparison, bands: ResultReference[]): ResultReference[] {
  const tee = e.environments?.find((v) => v.env_id === c.treatment)?.tee.type.toLowerCase();
  return c.primary ? bands.filter((r) => r.tee === "" || (tee && r.tee.toLowerCase().startsWith(tee))) : [];
}

function Interval({ c, axis, ticks, bands, title }: { c: ResultComparison; axis: Axis; ticks: { at: number }[]; bands: ResultReference[]; title: string }) {
  const at = (v: number) => placeOf(axis, v);
  const look = looks[kindOf(c)];
  const tone = `var(--${look.tone})`;
  const [lo, hi] = [c.cost_ci_low, c.cost_ci_high];
  return (
    <>
      {c.margin > 0 && <rect x={`${at(1 / (1 + c.margin))}%`} width={`${at(1 + c.margin) - at(1 / (1 + c.margin))}%`} y="0" height="100%" className="margin-band" />}
      {bands.map((r) => (
        <rect key={r.id} x={`${at(r.low)}%`} width={`${Math.max(0.5, at(r.high) - at(r.low))}%`} y="15%" height="70%" className="published-band">
          <title>{`published: ${formatTimes(r.low)} to ${formatTimes(r.high)}, ${r.citation}`}</title>
        </rect>
      ))}
      <Grid ticks={ticks} />
      <line x1={`${at(1)}%`} x2={`${at(1)}%`} y1="0" y2="100%" className="one-line" />
      {c.cost_ratio !== null && c.cost_ratio > 0 && (
        <>
          {lo !== null && hi !== null && lo > 0 && (
            <>
              <line x1={`${at(lo)}%`} x2={`${at(hi)}%`} y1="50%" y2="50%" stroke={tone} strokeWidth="2" />
              <End at={at(lo)} beyond={lo < axis.lo} way={1} tone={tone} />
              <End at={at(hi)} beyond={hi > axis.hi} way={-1} tone={tone} />
            </>
          )}
          <Mark x={at(c.cost_ratio)} shape={look.shape} tone={look.tone} title={title} />
        </>
      )}
    </>
  );
}

/** The end of an interval: a tick, or an arrow where it leaves the axis. */
function End({ at, beyond, way, tone }: { at: number; beyond: boolean; way: 1 | -1; tone: string }) {
  return (
    <svg className="mark" x={`${at}%`} y="50%">
      <path d={beyond ? `M${6 * way}-4L0 0L${6 * way} 4` : "M0-4V4"} fill="none" stroke={tone} strokeWidth="2" />
    </svg>
  );
}
