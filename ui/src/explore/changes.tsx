// What changed between two windows, among all series, without a rule.
import { useState } from "react";
import { asking, getDocument } from "../api/client";
import { useResource } from "../api/resource";
import type { AnomalyChange, AnomalyChanges, AnomalyWindow } from "../api/types";
import { BeforePicker } from "../explain/picker";
import { formatTimes, formatValue, rawValue, unitOf } from "../format/number";
import { formatLength, formatMoment, formatSince } from "../format/time";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { useMachine } from "../state/machine";
import { goTo, type Span } from "../state/place";
import { usePlace } from "../state/use-place";
import { sentence } from "../words/empty";

const first = 30;

export function Changes() {
  const { before, process } = usePlace();
  const { window: w } = useMachine();
  const now: Span = { from: w.from, to: w.to };
  const name = before ? asking("changes", { ...now, beforeFrom: before.from, beforeTo: before.to, process, job: w.job, instance: w.instance }) : null;
  const data = useResource<AnomalyChanges>(name, (s) => getDocument(name ?? "", s));
  const [all, setAll] = useState(false);
  const list = data.data?.changes ?? [];
  const shown = all ? list : list.slice(0, first);
  // The answer's windows may be shorter than those that were asked for.
  const compared = data.data ? { before: spanOf(data.data.before), after: spanOf(data.data.after) } : { before, after: now };
  return (
    <section className="card" aria-labelledby="changes" data-loading={data.loading}>
      <div className="section-head">
        <h2 id="changes">What changed</h2>
        <p>{before && compared.before ? `${spanText(compared.before)} against ${spanText(compared.after)}, the most unusual change first.` : "Compares all series of two windows."}</p>
      </div>
      <BeforePicker />
      {data.error && <Problem message={data.error} retry={data.retry} stale={data.data !== null} />}
      {!before && <p className="empty">Choose the earlier window. The later window is the time range above.</p>}
      {before && !data.data && !data.error && <p className="empty">Comparing all series; this takes a few seconds.</p>}
      {before && data.data && (
        <div className={data.loading ? "panel-body dimmed" : "panel-body"}>
          {process !== "" && <p className="note">Only processes matching {process}, the filter above.</p>}
          {data.data.note && <p className="note">{data.data.note}</p>}
          <p>{summary(list, data.data.compared)}</p>
          {list.length > 0 && (
            <div className="scroll" tabIndex={0} role="group" aria-label="Changes">
              <table className="data" id="change-list">
                <thead>
                  <tr>
                    <th scope="col">What</th>
                    <th scope="col" className="num">
                      Before
                    </th>
                    <th scope="col" className="num">
                      After
                    </th>
                    <th scope="col" className="num">
                      Times
                    </th>
                    <th scope="col" className="num" title="The difference, as a multiple of the spread within the windows">
                      Unusual by
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {shown.map((c) => (
                    <ChangeRow key={c.series + c.expr} change={c} />
                  ))}
                </tbody>
              </table>
            </div>
          )}
          {list.length > shown.length && (
            <button type="button" className="text-button" onClick={() => setAll(true)}>
              Show all {list.length}
            </button>
          )}
          {(data.data.unable ?? []).map((u) => (
            <p key={u} className="note note-warn">
              {sentence(u)}
            </p>
          ))}
        </div>
      )}
    </section>
  );
}

function ChangeRow({ change: c }: { change: AnomalyChange }) {
  const place = usePlace();
  const { before } = place;
  const { window: w } = useMachine();
  const unit = unitOf(c.unit);
  // Both windows on one axis.
  const both: Span = { from: Math.min(before?.from ?? w.from, w.from), to: w.to };
  return (
    <tr data-metric={c.metric}>
      <th scope="row">
        {c.text}
        {(c.since !== null || c.alike > 0) && (
          <div className="small dim">
            {[c.since === null ? "" : `since about ${formatSince(c.since)}`, c.alike > 0 ? c.event ? `${c.alike} more of its series` : `${c.alike} more series of ${c.metric} also changed` : ""].filter(Boolean).join("; ")}
          </div>
        )}
        <div>
          <PlaceLink to={{ ...goTo(place, "explore", "", c.expr), fixed: both }}>
            <code>{c.expr}</code>
          </PlaceLink>
        </div>
      </th>
      {[c.before, c.after].map((v, i) => (
        <td key={i} className="num" title={rawValue(v, unit)} data-value={v ?? ""}>
          {v === null ? "no values" : formatValue(v, unit)}
        </td>
      ))}
      <td className="num">{c.ratio === null ? "–" : formatTimes(c.ratio)}</td>
      {c.event ? (
        <td className="num" title="The start or end of a process has no spread to compare with" />
      ) : (
        <td className="num" title={String(c.score)}>
          {formatValue(Math.abs(c.score), "")} spreads
        </td>
      )}
    </tr>
  );
}

function summary(list: AnomalyChange[], compared: number): string {
  const events = list.filter((c) => c.event).length;
  const changed = list.length - events;
  const ran = events === 0 ? "" : `${events} ${events === 1 ? "process" : "processes"} started or stopped. `;
  if (compared === 0) return `${ran}No series has enough readings in both windows to be compared.`;
  return ran + (changed === 0 ? `None of ${compared} series changed beyond its usual spread.` : `${changed} of ${compared} series changed beyond ${changed === 1 ? "its" : "their"} usual spread.`);
}

function spanOf(w: AnomalyWindow): Span {
  return { from: Date.parse(w.from) / 1000, to: Date.parse(w.to) / 1000 };
}

function spanText({ from, to }: Span): string {
  return `${formatMoment(from, to - from)} (${formatLength(to - from)})`;
}
