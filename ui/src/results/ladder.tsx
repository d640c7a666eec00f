// What each layer adds: a bar from the cost of the layer below to its own, on one
// logarithmic axis, so that equal lengths are equal factors.
import type { ResultExperiment } from "../api/types";
import { formatTimes } from "../format/measure";
import { armsText, costText, kindOf } from "../words/benchmark";
import { placeOf, ratioAxis } from "./axis";
import { descOf, rungsOf } from "./document";
import { ratioTicks } from "./forest";
import { armLook, AxisHead, Grid, PlotTable, VerdictChip } from "./marks";

export function Ladder({ doc, kase }: { doc: ResultExperiment; kase: string }) {
  const rungs = rungsOf(doc, kase);
  const envs = (doc.environments ?? []).map((v) => v.env_id);
  const base = envs[0] ?? "the baseline";
  const interval = (r: (typeof rungs)[number]) => (r.c.cost_ci_low !== null && r.c.cost_ci_high !== null && r.c.cost_ci_low > 0 ? [r.from * r.c.cost_ci_low, r.from * r.c.cost_ci_high] : []);
  const axis = ratioAxis(rungs.flatMap((r) => [r.from, r.to, ...interval(r)]), 0);
  const at = (v: number) => placeOf(axis, v);
  const ticks = ratioTicks(axis);
  return (
    <PlotTable
      caption="What each layer adds"
      heads={["Layer", "Cost [interval]", "Verdict"]}
      axis={<AxisHead ticks={ticks} title={`cost against ${base}, logarithmic`} />}
      rows={rungs.map((r, i) => {
        const cost = costText(r.c, descOf(doc, r.c.metric).better);
        const { tone } = r.total ? { tone: "text-dim" } : armLook(envs.indexOf(r.c.treatment));
        const [lo, hi] = interval(r);
        const left = Math.min(at(r.from), at(r.to));
        const fromBase = r.c.baseline === base && !r.total && i > 0;
        return {
          key: armsText(r.c),
          strong: true,
          label: (
            <>
              {r.total ? "all together" : fromBase ? r.c.treatment : `+ ${r.c.treatment}`}
              <span className="small dim block">{r.total ? armsText(r.c) : fromBase ? `against ${base}` : `on ${r.c.baseline}`}</span>
            </>
          ),
          plot: (
            <>
              <Grid ticks={ticks} />
              <line x1={`${at(1)}%`} x2={`${at(1)}%`} y1="0" y2="100%" className="one-line" />
              <rect x={`${left}%`} width={`${Math.max(0.4, Math.abs(at(r.to) - at(r.from)))}%`} y="26%" height="48%" fill={`var(--${tone})`}>
                <title>{`${armsText(r.c)}: ${cost.raw}; from ${formatTimes(r.from)} to ${formatTimes(r.to)} of ${base}`}</title>
              </rect>
              {lo !== undefined && hi !== undefined && <line x1={`${at(lo)}%`} x2={`${at(hi)}%`} y1="50%" y2="50%" className="whisker" />}
            </>
          ),
          figure: <span title={cost.raw}>{cost.text}</span>,
          last: <VerdictChip kind={kindOf(r.c)} material={r.c.material} />,
        };
      })}
    />
  );
}
