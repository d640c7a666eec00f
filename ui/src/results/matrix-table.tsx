// The matrix of workloads and environments: the cost of each, its certainty, and whether it
// changed.
import type { ResultSummary } from "../api/types";
import { SparkLine } from "../charts/spark";
import { formatSince } from "../format/time";
import { PlaceLink } from "../frame/link";
import { costText, gradeMeans, headlineOf, kindOf } from "../words/benchmark";
import { VerdictChip } from "./marks";
import { matrixOf, type Cell } from "./matrix";

export function MatrixTable({ results }: { results: ResultSummary[] }) {
  const { columns, rows } = matrixOf(results);
  if (rows.length === 0) return null;
  const [base] = columns;
  const oneBase = columns.every((c) => c.baseline === base?.baseline);
  return (
    <section className="card" aria-labelledby="matrix">
      <div className="section-head">
        <h2 id="matrix">What each environment costs</h2>
        <p>The newest result of each workload{oneBase && `, against ${base?.baseline}`}. Above 1x is worse.</p>
      </div>
      <div className="scroll" tabIndex={0} role="group" aria-label="Workloads and environments">
        <table className="data matrix">
          <thead>
            <tr>
              <th scope="col">Workload</th>
              {columns.map((c) => (
                <th key={`${c.baseline} ${c.treatment}`} scope="col">
                  {oneBase ? c.treatment : `${c.treatment} against ${c.baseline}`}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((r) => (
              <tr key={r.workload} data-workload={r.workload}>
                <th scope="row">{r.workload}</th>
                {r.cells.map((cell, i) => (
                  <td key={i} data-treatment={columns[i]!.treatment}>
                    {cell ? <Result cell={cell} /> : <span className="dim">not run</span>}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Result({ cell: { result: r, comparison: c, trend } }: { cell: Cell }) {
  const kind = kindOf(c);
  // Summaries have costs, for which above 1 is worse in any metric.
  const cost = costText(c, "lower");
  return (
    <div className="matrix-cell" data-verdict={kind} title={headlineOf(c)}>
      <PlaceLink to={{ subject: r.id, beside: [] }}>
        {kind === "stand-in" ? <span className="dim">{cost.text}</span> : <b>{kind === "invalid" ? "refused" : cost.text}</b>}
      </PlaceLink>
      <span className="row">
        <VerdictChip kind={kind} material={c.material} />
        {kind === "stand-in" ? (
          <span className="small dim">{formatSince(r.started)}</span>
        ) : (
          <span className="small dim" title={gradeMeans(c.grade)}>
            grade {c.grade || "none"}, {formatSince(r.started)}
          </span>
        )}
      </span>
      {trend.length > 1 && (
        <span className="matrix-trend" title={`Cost ratio of the last ${trend.length} results, the newest on the right`}>
          <SparkLine values={trend} label={`Cost ratio of the last ${trend.length} results`} />
        </span>
      )}
    </div>
  );
}
