// The choice of the process, and of what to compare it with.
import { Autocomplete } from "@mantine/core";
import { useEffect, useState } from "react";
import { labelValues } from "../api/client";
import { useResource } from "../api/resource";
import type { FindingsRecord } from "../api/types";
import { formatLength } from "../format/time";
import { SpanForm } from "../frame/span-form";
import { own, processFilter, select } from "../query/promql";
import { useMachine } from "../state/machine";
import { divisors, type Per, type Span } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { steady } from "../state/window";
import { plainMessage } from "../words/message";
import "./explain.css";

interface ProcessProps {
  label: string;
  value: string;
  choose: (name: string) => void;
}

/** A process name, with those of the window that pass the process filter as completions. */
export function ProcessPicker({ label, value, choose }: ProcessProps) {
  const { process } = usePlace();
  const { window: w } = useMachine();
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const selector = select("tee_process_cpu_seconds_total", [...own(w), ...processFilter(process)]);
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
        error={names.error && plainMessage(names.error)}
        spellCheck={false}
      />
      <button type="submit" className="text-button">
        Show
      </button>
    </form>
  );
}

/** Per second or per request; the latter only if requests are counted. */
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
  ["same time yesterday", 86400],
  ["same time last week", 604800],
];

interface BeforeProps {
  /** Findings before which a window can end. */
  findings?: FindingsRecord[];
  /** The divisor of a comparison. */
  per?: Per;
}

/** The earlier window to compare with; it stops a moving one. */
export function BeforePicker({ findings = [], per }: BeforeProps) {
  const place = usePlace();
  const { before } = place;
  const { window: w } = useMachine();
  const now = steady(w);
  const choose = (span: Span) => move({ before: span, fixed: now, per: per ?? place.per });
  const beside = (seconds: number) => {
    const by = seconds || now.to - now.from;
    choose({ from: now.from - by, to: now.to - by });
  };
  const [first] = findings.toSorted((a, b) => a.since.localeCompare(b.since));
  const began = first ? Math.floor(Date.parse(first.since) / 1000) : 0;
  return (
    <details className="before-picker" open={before !== null}>
      <summary>{before ? `Compared with ${formatLength(before.to - before.from)} that began ${formatLength(now.from - before.from)} earlier` : "Compare with an earlier window"}</summary>
      <div className="row">
        {earlier.map(([name, seconds]) => (
          <button key={name} type="button" className="text-button" onClick={() => beside(seconds)}>
            {name}
          </button>
        ))}
        {first && (
          <button type="button" className="text-button" title={first.title} onClick={() => choose({ from: began - (now.to - now.from), to: began })}>
            before this finding
          </button>
        )}
        {before && (
          <button type="button" className="text-button" onClick={() => move({ before: null, beside: [] })}>
            Do not compare
          </button>
        )}
      </div>
      <SpanForm label="Compare" key={`${before?.from} ${before?.to}`} span={before ?? { from: now.from - (now.to - now.from), to: now.from }} choose={choose} />
    </details>
  );
}
