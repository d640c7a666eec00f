// All stored metrics with their help, to insert into the query.
import { useState } from "react";
import { labelValues, metadata } from "../api/client";
import { useResource } from "../api/resource";
import { Problem } from "../frame/problem";
import { own, select } from "../query/promql";
import { useMachine } from "../state/machine";
import { Sentence } from "../words/term";

/** More metrics than this are found by typing. */
const most = 40;

interface Metric {
  name: string;
  type: string;
  help: string;
}

export function MetricBrowser({ insert }: { insert: (name: string) => void }) {
  const { window: w } = useMachine();
  const [open, setOpen] = useState(false);
  const [text, setText] = useState("");
  const metrics = useResource<Metric[]>(open && w.instance !== "" ? `metrics ${w.instance} ${Math.floor(w.to / 60)}` : null, async (s) => {
    const [names, described] = await Promise.all([labelValues("__name__", select("", own(w)), w, s), metadata(s)]);
    return names.map((name) => {
      // The parts of a histogram have the help of the whole.
      const of = described[name] ?? described[name.replace(/_(bucket|count|sum)$/, "")];
      return { name, type: of?.[0]?.type ?? "", help: of?.[0]?.help ?? "" };
    });
  });
  const wanted = text.trim().toLowerCase();
  const found = (metrics.data ?? []).filter((m) => m.name.includes(wanted) || m.help.toLowerCase().includes(wanted));
  return (
    <details className="metric-browser" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Metrics{metrics.data && `, ${metrics.data.length}`}</summary>
      <input type="search" className="text-input" aria-label="Find a metric by its name or description" placeholder="Name or description" value={text} onChange={(e) => setText(e.target.value)} />
      {metrics.error && <Problem message={metrics.error} retry={metrics.retry} stale={metrics.data !== null} />}
      {metrics.data && found.length === 0 && <p className="dim">No metric matches.</p>}
      <ul className="metric-list">
        {found.slice(0, most).map((m) => (
          <li key={m.name} data-metric={m.name}>
            <button type="button" className="link-button mono" onClick={() => insert(m.name)}>
              {m.name}
            </button>{" "}
            {m.type && <span className="chip">{m.type}</span>} <span className="dim small">{m.help && <Sentence text={m.help} />}</span>
          </li>
        ))}
      </ul>
      {found.length > most && <p className="note">{found.length - most} more; type to find them.</p>}
    </details>
  );
}
