// The values of a query at one time, as a table, the largest first.
import { useState } from "react";
import type { Resource } from "../api/resource";
import type { Rows } from "../api/client";
import { labelTexts } from "../charts/data";
import { formatValue, rawValue, type Unit } from "../format/number";
import { numberOf, type VectorRow } from "../query/series";

export function Values({ data, unit, exact = false, first = 25 }: { data: Resource<Rows<VectorRow>>; unit: Unit; exact?: boolean; first?: number }) {
  const [all, setAll] = useState(false);
  const rows = (data.data?.rows ?? []).toSorted((a, b) => numberOf(b.value[1]) - numberOf(a.value[1]));
  const nameOf = labelTexts(rows.map((r) => r.metric));
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="Values">
      <table className="data">
        <thead>
          <tr>
            <th scope="col">Series</th>
            <th scope="col" className="num">
              Value
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, all ? undefined : first).map((r, i) => (
            <tr key={i}>
              <th scope="row" className="mono">
                {nameOf(r.metric)}
              </th>
              <td className="num" title={exact ? formatValue(numberOf(r.value[1]), unit) : rawValue(numberOf(r.value[1]), unit)} data-value={r.value[1]}>
                {exact ? r.value[1] : formatValue(numberOf(r.value[1]), unit)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {!all && rows.length > first && (
        <button type="button" className="text-button" onClick={() => setAll(true)}>
          Show all {rows.length}
        </button>
      )}
    </div>
  );
}
