// Two cost trees side by side, with the difference of each row.
import { Fragment } from "react";
import type { ExplainTree } from "../api/types";
import { formatValue, rawValue } from "../format/number";
import { formatMoment } from "../format/time";
import type { Per } from "../state/place";
import { formatRange, formatRate, formatSigned, formatTime, unclear } from "./amount";
import { ShareBar } from "./bar";
import { kindOf, pairTrees, restId, scaleOf, type Pair, type Side } from "./rows";

/** The names of the two sides of a comparison: for two processes of one window, the process names. */
export function sidesOf(before: ExplainTree, after: ExplainTree): [string, string] {
  return before.from === after.from && before.to === after.to ? [before.subject, after.subject] : ["Before", "After"];
}

interface Props {
  before: ExplainTree;
  after: ExplainTree;
  open: ReadonlySet<string>;
  toggle: (id: string) => void;
}

/** "redis-server, 14:02:00 to 14:05:00"; the process only if it is not shown above. */
function nameOfTree(t: ExplainTree, other: ExplainTree): string {
  const [from, to] = [Date.parse(t.from) / 1000, Date.parse(t.to) / 1000];
  const times = `${formatMoment(from, 0)} to ${formatMoment(to, 0)}`;
  return t.subject === other.subject || t.from === other.from ? times : `${t.subject}, ${times}`;
}

export function Comparison({ before, after, open, toggle }: Props) {
  const scale = scaleOf([before, after]);
  const per = after.per as Per;
  const sides = sidesOf(before, after);
  const heads: [string, string][] = [
    [sides[0], nameOfTree(before, after)],
    [sides[1], nameOfTree(after, before)],
  ];
  return (
    <table className="data cost cost-pairs" role="table" aria-label={sides[0] === "Before" ? "Where the time went, before and after" : `Where the time went, ${sides[0]} and ${sides[1]}`}>
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader" scope="col">
            What
          </th>
          {heads.map(([word, what]) => (
            <th key={word} role="columnheader" scope="col">
              {word}
              <div className="small dim">{what}</div>
            </th>
          ))}
          <th role="columnheader" scope="col" className="num">
            Difference
            <div className="small dim">time per {per}</div>
          </th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        {pairTrees(before, after).map((p) => (
          <PairLines key={p.id} pair={p} level={0} {...{ per, scale, open, toggle, sides }} />
        ))}
      </tbody>
    </table>
  );
}

interface LineProps {
  pair: Pair;
  sides: [string, string];
  level: number;
  per: Per;
  scale: { min: number; max: number };
  open: ReadonlySet<string>;
  toggle: (id: string) => void;
}

function PairLines(props: LineProps) {
  const { pair: p, sides, level, per, scale, open, toggle } = props;
  const isOpen = open.has(p.id);
  const indent = { marginInlineStart: `${level * 1.25}rem` };
  return (
    <Fragment>
      <tr role="row" className={p.id === restId ? "cost-rest" : ""} data-row={p.id === restId ? "rest" : p.id} data-difference={p.difference?.value ?? ""}>
        <th role="rowheader" scope="row">
          {p.pairs.length > 0 ? (
            <button type="button" className="disclosure" aria-expanded={isOpen} style={indent} onClick={() => toggle(p.id)}>
              <span className="cost-title">{p.title}</span>
            </button>
          ) : (
            <span className="cost-title cost-leaf" style={indent}>
              {p.title}
            </span>
          )}
          <span className="small dim">{kindOf(p.id, p.part)}</span>
        </th>
        <SideCell label={sides[0]} side={p.before} {...{ per, scale }} kind={p.kind} />
        <SideCell label={sides[1]} side={p.after} {...{ per, scale }} kind={p.kind} />
        <td role="cell" className="num" data-label="Difference">
          <Difference pair={p} sides={sides} />
        </td>
      </tr>
      {isOpen && p.pairs.map((q) => <PairLines {...props} key={q.id} pair={q} level={level + 1} />)}
    </Fragment>
  );
}

function SideCell({ label, side, per, scale, kind }: Pick<LineProps, "per" | "scale"> & { label: string; side: Side | null; kind: Pair["kind"] }) {
  return (
    <td role="cell" data-label={label}>
      {side ? (
        <span className="share" title={rawValue(side.share.value, "ratio")}>
          <ShareBar amount={side.share} scale={scale} kind={kind} />
          <span className="share-text">
            <b>{formatValue(side.share.value, "ratio")}</b> <span className="small dim">{formatRange(side.share, "ratio")}</span>
          </span>
          <span className="small dim">
            {formatTime(side.time, per)}
            {side.rate && ` · ${formatRate(side.rate, per)}`}
            {side.unit && ` · ${formatValue(side.unit.value, "seconds")} each`}
          </span>
        </span>
      ) : (
        <span className="dim">no such row</span>
      )}
    </td>
  );
}

function Difference({ pair: { difference: d, before, after }, sides }: { pair: Pair; sides: [string, string] }) {
  if (!d) return <span className="dim">{before && after ? "unknown: only one side was measured" : `only ${sides[0] === "Before" ? (before ? "before" : "after") : before ? sides[0] : sides[1]}`}</span>;
  return (
    <span title={rawValue(d.value, "seconds")}>
      <b>{formatSigned(d.value, "seconds")}</b>
      <div className="small dim">{formatRange(d, "seconds")}</div>
      {unclear(d) && <div className="small dim">may be none</div>}
    </span>
  );
}
