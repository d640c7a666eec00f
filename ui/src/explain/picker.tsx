// Which process, and beside what.
import { Autocomplete } from "@mantine/core";
import { useEffect, useState } from "react";
import { labelValues, queryAt } from "../api/client";
import { useResource } from "../api/resource";
import { keyOf } from "../charts/data";
import { formatValue } from "../format/number";
import { formatLength, toLocalInput } from "../format/time";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { counters, increaseBy, own, select } from "../query/promql";
import { rank } from "../query/series";
import { useMachine } from "../state/machine";
import { divisors, goTo, type Span } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { steady } from "../state/window";
import { openFindings } from "../words/verdict";
import "./explain.css";

interface ProcessProps {
  label: string;
  value: string;
  choose: (name: string) => void;
}

/** A process name, with those of the window as completions. */
export function ProcessPicker({ label, value, choose }: ProcessProps) {
  const { window: w } = useMachine();
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const selector = select("tee_process_cpu_seconds_total", own(w));
  const names = useResource(w.instance === "" ? null : `${selector} ${Math.floor(w.to / 30)} ${w.to - w.from}`, (s) => labelValues("process", selector, w, s));
  return (
    <form
      className="process-picker"
      onSubmit={(e) => {
        e.preventDefault();
        choose(text.trim());
      }}
    >
      <Autocomplete
        aria-label={label}
        placeholder={label}
        size="xs"
        value={text}
        onChange={setText}
        data={names.data ?? []}
        limit={12}
        onOptionSubmit={choose}
        error={names.error}
        spellCheck={false}
      />
      <button type="submit" className="text-button">
        Show
      </button>
    </form>
  );
}

/** Per second or per request; the latter only where requests are counted. */
export function PerPicker({ requests }: { requests: boolean }) {
  const { per } = usePlace();
  if (!requests && per === "second") return null;
  return (
    <div className="ranges" role="group" aria-label="Cost per">
      {divisors.map((d) => (
        <button key={d} type="button" aria-pressed={per === d} onClick={() => move({ per: d })}>
          per {d}
        </button>
      ))}
    </div>
  );
}

const earlier: [string, number][] = [
  ["the window before", 0],
  ["an hour earlier", 3600],
  ["a day earlier", 86400],
  ["a week earlier", 604800],
];

/** The earlier window that this one stands beside; it stops a moving one. */
export function BeforePicker() {
  const { before } = usePlace();
  const { window: w } = useMachine();
  const now = steady(w);
  const beside = (seconds: number) => {
    const by = seconds || now.to - now.from;
    move({ before: { from: now.from - by, to: now.to - by }, fixed: now });
  };
  return (
    <details className="before-picker" open={before !== null}>
      <summary>{before ? `Beside ${formatLength(before.to - before.from)} that began ${formatLength(now.from - before.from)} earlier` : "Compare with an earlier window"}</summary>
      <div className="row">
        {earlier.map(([name, seconds]) => (
          <button key={name} type="button" className="text-button" onClick={() => beside(seconds)}>
            {name}
          </button>
        ))}
        {before && (
          <button type="button" className="text-button" onClick={() => move({ before: null, beside: [] })}>
            Do not compare
          </button>
        )}
      </div>
      <SpanForm key={`${before?.from} ${before?.to}`} span={before ?? { from: now.from - (now.to - now.from), to: now.from }} choose={(span) => move({ before: span, fixed: now })} />
    </details>
  );
}

function SpanForm({ span, choose }: { span: Span; choose: (span: Span) => void }) {
  return (
    <form
      className="row small"
      onSubmit={(e) => {
        e.preventDefault();
        const form = new FormData(e.currentTarget);
        const [from, to] = ["from", "to"].map((n) => new Date(String(form.get(n))).getTime() / 1000) as [number, number];
        if (to > from) choose({ from, to });
      }}
    >
      <label>
        or from <input type="datetime-local" name="from" step="1" required defaultValue={toLocalInput(span.from)} />
      </label>
      <label>
        to <input type="datetime-local" name="to" step="1" required defaultValue={toLocalInput(span.to)} />
      </label>
      <button type="submit" className="text-button">
        Compare
      </button>
    </form>
  );
}

/** Where to begin: what findings are about, then what uses the CPU most. */
export function Candidates() {
  const place = usePlace();
  const { window: w, findings } = useMachine();
  const expr = increaseBy(counters.cpu, "process", [], w);
  const busy = useResource(w.instance === "" ? null : `${expr} ${keyOf(w)}`, async (s) => rank((await queryAt(expr, w.to, s)).rows, "process").slice(0, 15));
  const open = new Map(openFindings(findings.data).map((f) => [f.subject, f.title]));
  const names = (busy.data ?? []).toSorted((a, b) => Number(open.has(b.name)) - Number(open.has(a.name)));
  return (
    <section className="card" aria-labelledby="candidates">
      <h2 id="candidates">Which process?</h2>
      <p className="dim">Those that used the CPU most in these {formatLength(w.to - w.from)}; any other can be typed above.</p>
      {busy.error && <Problem message={busy.error} retry={busy.retry} stale={busy.data !== null} />}
      {busy.data?.length === 0 && <p className="empty">No process used the CPU in this window, as far as is known.</p>}
      <ul className="candidates">
        {names.map(({ name, total }) => (
          <li key={name}>
            <PlaceLink to={{ ...goTo(place, "explain", name), before: place.before }}>{name}</PlaceLink> <span className="dim small">{formatValue(total, "seconds")} of CPU time</span>
            {open.has(name) && <div className="small">{open.get(name)}</div>}
          </li>
        ))}
      </ul>
    </section>
  );
}
