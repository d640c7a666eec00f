// Every run of each arm as a point on a strip: spread, shape, and what was not counted.
import type { ResultExperiment } from "../api/types";
import { formatMeasure, rawMeasure, unitWords } from "../format/measure";
import { placeOf, ticksOf, valueAxis } from "./axis";
import { descOf, median, metricLabel, readings, whyMissing } from "./document";
import { armLook, ArmName, AxisHead, Grid, Mark, PlotTable, Swatch } from "./marks";

// Points of a strip stand apart, the same way each time.
const spread = [0, -6, 6, -3, 3, -9, 9];

export function Strips({ doc, kase, metric }: { doc: ResultExperiment; kase: string; metric: string }) {
  const { unit, better } = descOf(doc, metric);
  const arms = (doc.environments ?? []).map((v) => ({ env: v.env_id, ...readings(doc, v.env_id, kase, metric) }));
  const axis = valueAxis(arms.flatMap((a) => [...a.good, ...a.out].map((r) => r.value)));
  const words = unitWords(unit);
  const ticks = ticksOf(axis, 4, unit).map((v) => ({ at: placeOf(axis, v), text: formatMeasure(v, words === "" ? unit : "") }));
  const label = metricLabel(doc, metric);
  const title = [`${label}${words === "" ? "" : ` (${words})`}${axis.log ? ", logarithmic" : ""}`, better === "none" ? "" : `${better} is better`].filter(Boolean).join(", ");
  return (
    <PlotTable
      caption={`All runs: ${label}`}
      heads={["Environment", "Median", "Runs"]}
      axis={<AxisHead ticks={ticks} title={title} />}
      note={
        <>
          <span>
            <i className="key key-median" /> median
          </span>
          {arms.some((a) => a.out.length > 0) && (
            <span>
              <Swatch shape="cross" tone="series-rest" /> not counted
            </span>
          )}
        </>
      }
      rows={arms.map(({ env, good, out }, i) => {
        const values = good.map((r) => r.value);
        const m = median(values);
        const look = armLook(i);
        return {
          key: env,
          label: <ArmName name={env} index={i} />,
          height: 40,
          plot: (
            <>
              <Grid ticks={ticks} />
              {m !== null && <line x1={`${placeOf(axis, m)}%`} x2={`${placeOf(axis, m)}%`} y1="12%" y2="88%" className="median-line" />}
              {good.map((r, k) => (
                <Mark key={r.run.run_id} x={placeOf(axis, r.value)} shift={spread[k % spread.length]!} scale={0.8} {...look} title={`${r.run.run_id}: ${rawMeasure(r.value, unit)}`} />
              ))}
              {out.map((r, k) => (
                <Mark key={r.run.run_id} x={placeOf(axis, r.value)} shift={spread[k % spread.length]!} scale={0.8} shape="cross" tone="series-rest" title={`${r.run.run_id}, ${r.run.status}: ${rawMeasure(r.value, unit)}`} />
              ))}
            </>
          ),
          figure: m === null ? <span>missing: {whyMissing(doc, env, kase, metric)}</span> : <span title={rawMeasure(m, unit)}>{formatMeasure(m, unit)}</span>,
          last: (
            <span className="small">
              {values.length === 0 ? "none" : `${values.length}, from ${formatMeasure(Math.min(...values), unit)} to ${formatMeasure(Math.max(...values), unit)}`}
              {out.length > 0 && `; ${out.length} not counted`}
            </span>
          ),
        };
      })}
    />
  );
}
