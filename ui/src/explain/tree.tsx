// The cost tree: where the time of a process went, a row for each part.
import { Fragment, useState } from "react";
import type { ExplainRow, ExplainTree } from "../api/types";
import { formatValue, rawValue } from "../format/number";
import type { Span } from "../state/place";
import { sentence } from "../words/empty";
import { Sentence } from "../words/term";
import { formatRange, formatRate, formatTime } from "./amount";
import { ShareBar } from "./bar";
import { Evidence } from "./evidence";
import { byShare, kindOf, kindOfRow, restId, scaleOf, type Kind } from "./rows";

interface Props {
  tree: ExplainTree;
  /** Ids of the rows that are open. */
  open: ReadonlySet<string>;
  toggle: (id: string) => void;
  /** The row under the pointer in the picture. */
  lit?: string;
}

export function Tree({ tree, open, toggle, lit = "" }: Props) {
  const scale = scaleOf([tree]);
  const window: Span = { from: Date.parse(tree.from) / 1000, to: Date.parse(tree.to) / 1000 };
  const per = tree.per;
  const shared = { tree, per, scale, window, open, toggle, lit };
  return (
    <table className="data cost" role="table" aria-label={tree.baseline ? `What explains the difference: ${tree.subject} against ${tree.baseline}` : `Where the time of ${tree.subject} went`}>
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader" scope="col">
            What
          </th>
          <th role="columnheader" scope="col" className="num">
            How often
          </th>
          <th role="columnheader" scope="col" className="num">
            Cost of one
          </th>
          <th role="columnheader" scope="col" className="num">
            Time
          </th>
          <th role="columnheader" scope="col">
            {tree.baseline ? "Share of the difference" : "Share of its time"}
          </th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        {byShare(tree.rows).map((row) => (
          <RowLines key={row.id} row={row} level={0} {...shared} />
        ))}
        <tr role="row" className={lit === restId ? "cost-rest lit" : "cost-rest"} data-row="rest" data-share={tree.unexplainedShare.value}>
          <th role="rowheader" scope="row">
            <span className="cost-title">Not explained</span>
            <span className="small dim">measured time minus the rows above</span>
          </th>
          <td role="cell" className="num" data-label="How often" />
          <td role="cell" className="num" data-label="Cost of one" />
          <td role="cell" className="num" data-label="Time" title={rawValue(tree.unexplained.value, "seconds")}>
            {formatTime(tree.unexplained, per)}
          </td>
          <td role="cell" data-label="Share">
            <Share share={tree.unexplainedShare} scale={scale} kind="rest" />
          </td>
        </tr>
      </tbody>
    </table>
  );
}

interface RowProps extends Props {
  row: ExplainRow;
  level: number;
  per: string;
  scale: { min: number; max: number };
  window: Span;
}

function RowLines(props: RowProps) {
  const { row, level, per, scale, open, toggle, lit } = props;
  const isOpen = open.has(row.id);
  const id = `cost-${row.id}`;
  return (
    <Fragment>
      <tr role="row" className={lit === row.id ? "lit" : undefined} data-row={row.id} data-share={row.share.value} data-level={level}>
        <th role="rowheader" scope="row">
          <button type="button" className="disclosure" aria-expanded={isOpen} aria-controls={isOpen ? id : undefined} style={{ marginInlineStart: `${level * 1.25}rem` }} onClick={() => toggle(row.id)}>
            <span className="cost-title">{row.title}</span>
          </button>
          <span className="small dim" style={{ marginInlineStart: `${level * 1.25 + 1.125}rem` }}>
            {row.tee ? `the TEE, ${kindOf(row.id, row.part)}` : kindOf(row.id, row.part)}
          </span>
        </th>
        <td role="cell" className="num" data-label="How often" title={row.rate ? `${formatRange(row.rate, per === "second" ? "1/s" : "")} with 95 % confidence` : "Nothing counts the events behind this time, so it has no rate."}>
          {row.rate && formatRate(row.rate, per)}
          {row.rate && row.rate.low < row.rate.high && <div className="small dim">{formatRange(row.rate, per === "second" ? "1/s" : "")}</div>}
        </td>
        <td role="cell" className="num" data-label="Cost of one">
          {row.unit && (
            <>
              <span title={rawValue(row.unit.value, "seconds")}>{formatValue(row.unit.value, "seconds")}</span>
              <div className="small dim">{formatRange(row.unit, "seconds")}</div>
              <div className="small dim">{row.unit.origin}</div>
            </>
          )}
        </td>
        <td role="cell" className="num" data-label="Time" title={`${formatRange(row.time, "seconds")} with 95 % confidence`}>
          {formatTime(row.time, per)}
        </td>
        <td role="cell" data-label="Share">
          <Share share={row.share} scale={scale} kind={kindOfRow(row)} />
        </td>
      </tr>
      {isOpen && (
        <tr role="row" className="cost-detail">
          <td role="cell" colSpan={5} id={id} style={{ paddingInlineStart: `${level * 1.25 + 1.75}rem` }}>
            <Detail row={row} window={props.window} />
          </td>
        </tr>
      )}
      {isOpen && byShare(row.rows).map((r) => <RowLines {...props} key={r.id} row={r} level={level + 1} />)}
    </Fragment>
  );
}

function Share({ share, scale, kind }: { share: ExplainRow["share"]; scale: RowProps["scale"]; kind: Kind }) {
  return (
    <span className="share" title={rawValue(share.value, "ratio")}>
      <ShareBar amount={share} scale={scale} kind={kind} />
      <span className="share-text">
        <b>{formatValue(share.value, "ratio")}</b> <span className="small dim">{formatRange(share, "ratio")}</span>
      </span>
    </span>
  );
}

function Detail({ row, window }: { row: ExplainRow; window: Span }) {
  return (
    <>
      {row.advice && (
        <p>
          <strong>What to do. </strong>
          <Sentence text={sentence(row.advice)} />
        </p>
      )}
      {row.unit && (
        <p>
          <strong>What one costs: {row.unit.origin}. </strong>
          <Sentence text={sentence(row.unit.how)} />
        </p>
      )}
      {row.reason && (
        <p>
          <Sentence text={sentence(row.reason)} />
        </p>
      )}
      <Evidence evidence={row.evidence} window={window} />
    </>
  );
}

/** The open rows; at most as many as there are rows. */
export function useOpen(): [ReadonlySet<string>, (id: string) => void, (ids: string[]) => void] {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const toggle = (id: string) =>
    setOpen((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  return [open, toggle, (ids) => setOpen(new Set(ids))];
}
