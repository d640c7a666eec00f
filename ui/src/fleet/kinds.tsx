// Machines by their TEE and their health. Each number leads to its machines.
import type { FleetHealth, FleetPage } from "../api/types";
import { PlaceLink } from "../frame/link";
import { home } from "../state/place";
import { healths, healthWords, teeWords } from "../words/fleet";

export function KindTable({ fleet }: { fleet: FleetPage }) {
  const kinds = fleet.kinds ?? [];
  const shown = healths.filter((h) => kinds.some((k) => k[h] > 0));
  return (
    <section className="card" aria-labelledby="kinds">
      <h2 id="kinds">By TEE</h2>
      <div className="scroll" tabIndex={0} role="group" aria-label="Machines by TEE and state">
        <table className="data" id="by-tee">
          <thead>
            <tr>
              <th scope="col">TEE</th>
              <th scope="col" className="num">
                Machines
              </th>
              {shown.map((h) => (
                <th key={h} scope="col" className="num">
                  {healthWords[h]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {kinds.map((k) => (
              <tr key={k.tee} data-tee={k.tee}>
                <th scope="row">{teeWords(k.tee)}</th>
                <td className="num">
                  <Count n={k.machines} tee={k.tee} health="" />
                </td>
                {shown.map((h) => (
                  <td key={h} className="num" data-health={h} data-value={k[h]}>
                    <Count n={k[h]} tee={k.tee} health={h} />
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

function Count({ n, tee, health }: { n: number; tee: string; health: FleetHealth | "" }) {
  if (n === 0) return <span className="dim">0</span>;
  return <PlaceLink to={{ subject: "", filter: { ...home.filter, environment: tee, verdict: health } }}>{n}</PlaceLink>;
}
