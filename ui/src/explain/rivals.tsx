// The processes that use the CPU while a process waits for one, as the server computed them.
import type { RivalsContest } from "../api/types";
import { formatValue, type Unit } from "../format/number";
import { PlaceLink } from "../frame/link";
import { Sentence } from "../words/term";

export function Rivals({ of: c }: { of: RivalsContest }) {
  return (
    <section className="card" aria-labelledby="rivals">
      <h2 id="rivals">Who takes the CPU</h2>
      <p data-rivals>
        <Sentence text={c.text} />
      </p>
      <ul className="rivals">
        {(c.takers ?? []).map((r) => (
          <li key={r.name} data-rival={r.name}>
            <PlaceLink to={{ subject: r.name, beside: [], before: null }}>{r.name}</PlaceLink> {r.atMost && "at most "}
            {formatValue(r.value, r.unit as Unit)}
          </li>
        ))}
      </ul>
      {(c.notes ?? []).map((n) => (
        <p key={n} className="dim small">
          {n}
        </p>
      ))}
    </section>
  );
}
