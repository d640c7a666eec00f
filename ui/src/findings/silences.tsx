// Silences: findings that send no notifications for a while. They stay on the page.
import { useState, type FormEvent } from "react";
import { addSilence, endSilence, getDocument } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import type { FindingsRecord, FindingsSilence, Silences } from "../api/types";
import { formatLength, formatSince } from "../format/time";
import { Locked, useAuthority } from "../frame/locked";
import { Problem } from "../frame/problem";
import { literal } from "../query/promql";
import { useMachine } from "../state/machine";
import { whomOf } from "../words/problem";
import { count } from "../words/verdict";

const lengths: [string, number][] = [
  ["1 hour", 3600],
  ["4 hours", 14400],
  ["1 day", 86400],
  ["1 week", 604800],
  ["30 days", 2592000],
];

export function useSilences(): Resource<FindingsSilence[]> {
  const { tick } = useMachine();
  return useResource<FindingsSilence[]>(`silences ${tick}`, async (s) => (await getDocument<Silences | null>("silences", s))?.silences ?? []);
}

/** What a silence covers, in words. */
export function coverOf(s: FindingsSilence, titles: Map<string, string>): string {
  const what = s.rule === "" ? "Every finding" : (titles.get(s.rule) ?? s.rule);
  return s.subject === "" ? `${what}, of all subjects` : `${what}, of subjects that match ${s.subject}`;
}

/** The button of a finding, and the form that it opens. */
export function SilenceForm({ finding: f, title }: { finding: FindingsRecord; title: string }) {
  const { refresh } = useMachine();
  const authority = useAuthority();
  const [open, setOpen] = useState(false);
  const [failed, setFailed] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (e: FormEvent<HTMLFormElement>) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget);
    setBusy(true);
    try {
      await addSilence({
        rule: f.rule,
        subject: form.get("whom") === "all" ? "" : literal(whomOf(f)),
        until: new Date(Date.now() + Number(form.get("length")) * 1000).toISOString(),
        comment: String(form.get("comment")).trim(),
      });
      setFailed("");
      setOpen(false);
      refresh();
    } catch (err) {
      setFailed(err instanceof Error ? err.message : String(err));
    } finally {
      setBusy(false);
    }
  };
  if (!open)
    return (
      <>
        <button type="button" className="text-button" disabled={!authority?.may} onClick={() => setOpen(true)}>
          Silence
        </button>
        {authority?.locked && (
          <details className="small">
            <summary>Locked</summary>
            <Locked authority={authority} />
          </details>
        )}
      </>
    );
  return (
    <form className="silence-form" aria-label={`Silence ${title} of ${whomOf(f)}`} onSubmit={(e) => void submit(e)}>
      <label>
        for{" "}
        <select name="length" defaultValue="14400">
          {lengths.map(([name, seconds]) => (
            <option key={name} value={seconds}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label>
        of{" "}
        <select name="whom">
          <option value="one">{whomOf(f)}</option>
          <option value="all">all subjects</option>
        </select>
      </label>
      <label className="silence-why">
        because <input name="comment" className="text-input" required maxLength={500} placeholder="who and why" autoFocus />
      </label>
      <button type="submit" className="button" disabled={busy}>
        Silence
      </button>
      <button type="button" className="text-button" onClick={() => setOpen(false)}>
        Cancel
      </button>
      {failed && (
        <p className="note-warn" role="alert">
          {failed}
        </p>
      )}
    </form>
  );
}

export function SilenceList({ silences, titles }: { silences: Resource<FindingsSilence[]>; titles: Map<string, string> }) {
  const { tick } = useMachine();
  const authority = useAuthority();
  const [failed, setFailed] = useState("");
  const list = (silences.data ?? []).filter((s) => Date.parse(s.until) / 1000 > tick);
  const end = async (id: string) => {
    try {
      await endSilence(id);
      setFailed("");
      silences.retry();
    } catch (e) {
      setFailed(e instanceof Error ? e.message : String(e));
    }
  };
  return (
    <section className="card" aria-labelledby="silences">
      <h2 id="silences">{list.length === 0 ? "No silences" : count(list.length, "silence")}</h2>
      {list.length === 0 && !silences.error && <p className="dim">A silenced finding stays on this page but sends no notification.</p>}
      {silences.error && <Problem message={silences.error} retry={silences.retry} stale={silences.data !== null} />}
      {failed && (
        <p className="note-warn" role="alert">
          {failed}
        </p>
      )}
      {list.length > 0 && <Locked authority={authority} />}
      <ul className="silence-list">
        {list.map((s) => (
          <li key={s.id} data-silence={s.id}>
            <span>
              <strong>{coverOf(s, titles)}</strong>
              <br />
              <span className="dim">
                until {formatSince(s.until)}, {formatLength(Date.parse(s.until) / 1000 - tick)} left
                {s.comment && `: ${s.comment}`}
                {s.author && ` (made by ${s.author})`}
              </span>
            </span>
            <button type="button" className="text-button" disabled={!authority?.may} aria-label={`End the silence of ${coverOf(s, titles)}`} onClick={() => void end(s.id)}>
              End it
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
