// What the TEE does on the whole machine: counted, but not by process.
import { Fragment } from "react";
import type { ExplainMachine, ExplainRow } from "../api/types";
import { formatValue, rawValue } from "../format/number";
import { sentence } from "../words/empty";
import { Sentence } from "../words/term";
import { formatRange, formatRate } from "./amount";

export function OfMachine({ machine: m }: { machine: ExplainMachine }) {
  const rows = m.rows ?? [];
  return (
    <section className="card" aria-labelledby="of-machine">
      <div className="section-head">
        <h2 id="of-machine">The TEE on the whole machine</h2>
        <p>No counter splits these values by process.{m.busy > 0 && ` Shares are of ${formatValue(m.busy, "cores")} in use.`}</p>
      </div>
      <div className="scroll" tabIndex={0} role="group" aria-label="What the TEE does on the whole machine">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">What</th>
              <th scope="col" className="num">
                How often
              </th>
              <th scope="col" className="num">
                Cost of one
              </th>
              <th scope="col" className="num">
                CPU time
              </th>
              <th scope="col" className="num">
                Share
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((r) => (
              <Fragment key={r.id}>
                <Line row={r} busy={m.busy} />
                {(r.rows ?? []).map((part) => (
                  <Line key={part.id} row={part} busy={m.busy} inner />
                ))}
              </Fragment>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** The smallest share for which advice is shown. */
const leastActed = 0.05;

function Line({ row: r, busy, inner = false }: { row: ExplainRow; busy: number; inner?: boolean }) {
  const timed = r.time.value > 0;
  return (
    <tr data-row={r.id}>
      <th scope="row" style={inner ? { paddingInlineStart: "1.75rem" } : undefined}>
        {r.title}
        {r.reason && (
          <div className="dim small">
            <Sentence text={sentence(r.reason)} />
          </div>
        )}
        {r.advice && r.share.value >= leastActed && (
          <div className="small">
            <Sentence text={sentence(r.advice)} />
          </div>
        )}
      </th>
      <td className="num">{r.rate && formatRate(r.rate, "second")}</td>
      <td className="num">
        {r.unit && (
          <>
            <span title={rawValue(r.unit.value, "seconds")}>{formatValue(r.unit.value, "seconds")}</span>
            <div className="small dim">{r.unit.origin}</div>
          </>
        )}
      </td>
      <td className="num">{timed ? <span title={formatRange(r.time, "cores")}>{formatValue(r.time.value, "cores")}</span> : <span className="dim">not known</span>}</td>
      <td className="num">{timed && busy > 0 && formatValue(r.share.value, "ratio")}</td>
    </tr>
  );
}
