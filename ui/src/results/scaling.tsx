// A metric over a swept parameter: its value in each arm, the efficiency of each
// arm by itself where the parameter is a number of workers, and what each arm
// costs at each point. An efficiency alone can hide a slow start.
import type { ResultExperiment } from "../api/types";
import { formatMeasure, formatTimes, rawMeasure, spaced, unitWords } from "../format/measure";
import { formatValue } from "../format/number";
import { costText } from "../words/benchmark";
import { placeOf, ratioAxis, ticksOf, valueAxis, type Axis } from "./axis";
import { curvesOf, descOf, efficiencyOf, isParallel, metricLabel, primaryOf, type Curve, type Sweep } from "./document";
import { ratioTicks } from "./forest";
import { armLook, ArmName, Mark } from "./marks";

interface Whisker {
  env: string;
  at: number;
  value: number;
  low: number;
  high: number;
  title: string;
}

export function Scaling({ doc, sweep }: { doc: ResultExperiment; sweep: Sweep }) {
  const metric = primaryOf(doc);
  const { unit, better } = descOf(doc, metric);
  const envs = (doc.environments ?? []).map((v) => v.env_id);
  const base = envs[0] ?? "";
  const curves = curvesOf(doc, sweep, metric);
  const words = unitWords(unit);
  const name = `${metricLabel(doc, metric)}${words === "" ? "" : ` (${words})`}`;
  const values = valueAxis(curves.flatMap((c) => c.points.map((p) => p.value)), true);
  const efficiency = isParallel(sweep.param) && better !== "none" ? curves.map((c) => efficiencyOf(c, better)) : [];
  const shares = valueAxis([1, ...efficiency.flatMap((c) => c.points.map((p) => p.value))], true);
  const whiskers = (doc.comparisons ?? []).flatMap((c): Whisker[] => {
    const point = sweep.points.find((p) => p.case === c.case);
    if (!point || c.metric !== metric || c.baseline !== base || c.cost_ratio === null || c.cost_ratio <= 0) return [];
    const title = `${c.treatment}, ${sweep.param} ${point.written}: ${costText(c, better).text}${c.verdict === "invalid" ? ", refused" : ""}`;
    return [{ env: c.treatment, at: point.at, value: c.cost_ratio, low: c.cost_ci_low ?? c.cost_ratio, high: c.cost_ci_high ?? c.cost_ratio, title }];
  });
  const ratios = ratioAxis(whiskers.flatMap((w) => [Math.max(w.low, w.value / 4), Math.min(w.high, w.value * 4)]), 0.01);
  return (
    <>
      {sweep.other !== "" && <h3>{sweep.other}</h3>}
      <div className="plot-legend">
        {envs.map((env, i) => (
          <ArmName key={env} name={env} index={i} />
        ))}
      </div>
      <div className="grid">
        <Chart title={name} sweep={sweep} envs={envs} curves={curves} axis={values} ticks={ticksOf(values, 4, unit).map((v) => ({ at: placeOf(values, v), text: formatMeasure(v, words === "" ? unit : "") }))} value={(v) => rawMeasure(v, unit)} />
        {efficiency.length > 0 && (
          <Chart title="Efficiency of each arm by itself" sweep={sweep} envs={envs} curves={efficiency} axis={shares} level={1} ticks={ticksOf(shares, 4).map((v) => ({ at: placeOf(shares, v), text: formatValue(v, "ratio") }))} value={(v) => formatValue(v, "ratio")} />
        )}
        {whiskers.length > 0 && <Chart title={`Cost against ${base}`} sweep={sweep} envs={envs} curves={[]} whiskers={whiskers} axis={ratios} level={1} ticks={ratioTicks(ratios)} value={formatTimes} />}
      </div>
      <div className="scroll" tabIndex={0} role="group" aria-label={`${name} over ${sweep.param}`}>
        <table className="data">
          <thead>
            <tr>
              <th scope="col">{spaced(sweep.param)}</th>
              {envs.map((env) => (
                <th key={env} scope="col" className="num">
                  {env}
                </th>
              ))}
              {efficiency.map((c) => (
                <th key={c.env} scope="col" className="num">
                  {c.env}, efficiency
                </th>
              ))}
              {whiskers.length > 0 &&
                envs.slice(1).map((env) => (
                  <th key={env} scope="col" className="num">
                    {env}, cost
                  </th>
                ))}
            </tr>
          </thead>
          <tbody>
            {sweep.points.map((p) => (
              <tr key={p.case}>
                <th scope="row">{p.written}</th>
                {curves.map((c) => (
                  <Cell key={c.env} v={valueAt(c, p.at)} text={(v) => formatMeasure(v, unit)} raw={(v) => rawMeasure(v, unit)} />
                ))}
                {efficiency.map((c) => (
                  <Cell key={c.env} v={valueAt(c, p.at)} text={(v) => formatValue(v, "ratio")} raw={String} />
                ))}
                {whiskers.length > 0 &&
                  envs.slice(1).map((env) => {
                    const w = whiskers.find((x) => x.env === env && x.at === p.at);
                    return (
                      <td key={env} className="num" title={w?.title}>
                        {w ? `${formatTimes(w.value)} [${formatTimes(w.low).slice(0, -1)}, ${formatTimes(w.high).slice(0, -1)}]` : "missing"}
                      </td>
                    );
                  })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function valueAt(c: Curve, at: number): number | null {
  return c.points.find((p) => p.at === at)?.value ?? null;
}

function Cell({ v, text, raw }: { v: number | null; text: (v: number) => string; raw: (v: number) => string }) {
  return (
    <td className="num" title={v === null ? undefined : raw(v)}>
      {v === null ? "missing" : text(v)}
    </td>
  );
}

interface ChartProps {
  title: string;
  sweep: Sweep;
  envs: string[];
  curves: Curve[];
  whiskers?: Whisker[];
  axis: Axis;
  /** A line to compare with. */
  level?: number;
  ticks: { at: number; text: string }[];
  value: (v: number) => string;
}

// The table below says the same in text.
function Chart({ title, sweep, envs, curves, whiskers = [], axis, level, ticks, value }: ChartProps) {
  // Points of a sweep stand at equal distances: doubling is a step.
  const x = (at: number) => (100 * (sweep.points.findIndex((p) => p.at === at) + 0.5)) / sweep.points.length;
  const y = (v: number) => 100 - placeOf(axis, v);
  const every = Math.ceil(sweep.points.length / 8);
  return (
    <figure className="chart" aria-label={title}>
      <figcaption>{title}</figcaption>
      <div className="chart-y" aria-hidden="true">
        {ticks.map((t) => (
          <span key={t.at} style={{ bottom: `${t.at}%` }}>
            {t.text}
          </span>
        ))}
      </div>
      <svg className="chart-area" aria-hidden="true">
        {ticks.map((t) => (
          <line key={t.at} x1="0" x2="100%" y1={`${100 - t.at}%`} y2={`${100 - t.at}%`} className="grid-line" />
        ))}
        {level !== undefined && <line x1="0" x2="100%" y1={`${y(level)}%`} y2={`${y(level)}%`} className="one-line" />}
        {curves.map((c) => {
          const { shape, tone } = armLook(envs.indexOf(c.env));
          return (
            <g key={c.env}>
              {c.points.slice(1).map((p, i) => (
                <line key={p.at} x1={`${x(c.points[i]!.at)}%`} y1={`${y(c.points[i]!.value)}%`} x2={`${x(p.at)}%`} y2={`${y(p.value)}%`} stroke={`var(--${tone})`} strokeWidth="2" />
              ))}
              {c.points.map((p) => (
                <Mark key={p.at} x={x(p.at)} y={`${y(p.value)}%`} shape={shape} tone={tone} title={`${c.env}, ${sweep.param} ${p.at}: ${value(p.value)}`} />
              ))}
            </g>
          );
        })}
        {whiskers.map((w) => {
          const i = envs.indexOf(w.env);
          const { shape, tone } = armLook(i);
          const px = x(w.at) + (i - 1) * 3;
          return (
            <g key={`${w.env} ${w.at}`}>
              <line x1={`${px}%`} x2={`${px}%`} y1={`${y(w.low)}%`} y2={`${y(w.high)}%`} stroke={`var(--${tone})`} strokeWidth="2" />
              <Mark x={px} y={`${y(w.value)}%`} shape={shape} tone={tone} title={w.title} />
            </g>
          );
        })}
      </svg>
      <div className="chart-x" aria-hidden="true">
        {sweep.points.map((p, i) => (i % every === 0 ? <span key={p.at} style={{ left: `${x(p.at)}%` }}>{p.written}</span> : null))}
      </div>
      <div className="chart-x-title small dim">{spaced(sweep.param)}</div>
    </figure>
  );
}
