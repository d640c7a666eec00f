// The values of a query at one time, as a table.
import type { Resource } from "../api/resource";
import type { Rows } from "../api/client";
import { labelText } from "../charts/data";
import { formatValue, rawValue, type Unit } from "../format/number";
import type { VectorRow } from "../query/series";

const most = 200;

export function Values({ data, unit, exact = false }: { data: Resource<Rows<VectorRow>>; unit: Unit; exact?: boolean }) {
  const rows = data.data?.rows ?? [];
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
          {rows.slice(0, most).map((r, i) => (
            <tr key={i}>
              <th scope="row" className="mono">
                {labelText(r.metric)}
              </th>
              <td className="num" title={exact ? formatValue(Number(r.value[1]), unit) : rawValue(Number(r.value[1]), unit)} data-value={r.value[1]}>
                {exact ? r.value[1] : formatValue(Number(r.value[1]), unit)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > most && <p className="note">{`The first ${most} of ${rows.length}.`}</p>}
    </div>
  );
}
