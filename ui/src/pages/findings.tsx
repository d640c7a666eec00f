// Findings: when, open and closed, and the answer of every rule.
import { useEffect, useState } from "react";
import { asking, getDocument } from "../api/client";
import { useResource } from "../api/resource";
import type { FindingsRecord, Findings } from "../api/types";
import { FindingDetail, type FindingProps } from "../findings/detail";
import "../findings/findings.css";
import { Rules } from "../findings/rules";
import { SilenceList, useSilences } from "../findings/silences";
import { lengthOf, Timeline } from "../findings/timeline";
import { formatSince } from "../format/time";
import { Problem } from "../frame/problem";
import { useMachine } from "../state/machine";
import { useProcesses } from "../state/processes";
import { usePlace } from "../state/use-place";
import { steady } from "../state/window";
import { count, openFindings } from "../words/verdict";

/** The worst open findings are shown in full, the newest closed ones in a line each. */
const inFull = 5;
const inLines = 100;

export default function FindingsPage() {
  const place = usePlace();
  const { findings, window: w } = useMachine();
  const silences = useSilences();
  const f = findings.data;
  const history = useHistory();
  const latest = f?.findings ?? [];
  // The window's past findings, next to those that are open or closed recently.
  const near = [...latest, ...(history.data ?? []).filter((r) => !latest.some((l) => l.id === r.id))];
  const linked = useLinked(place.subject, f === null || near.some((r) => r.id === place.subject));
  const all = [...near, ...(linked.data ?? []).filter((r) => r.id === place.subject && !near.some((n) => n.id === r.id))];
  const open = openFindings(f);
  const closed = all.filter((r) => r.state === "closed");
  const listed = closed.filter((r, i) => i < inLines || r.id === place.subject);
  const rules = f?.rules ?? [];
  const blind = rules.filter((r) => r.answer === "cannot tell").length;
  const titles = new Map(rules.map((r) => [r.name, r.title]));
  const processes = useProcesses(all.length > 0);
  const shared = (rule: string, subject: string) => ({ title: titles.get(rule) ?? rule, silences: silences.data ?? [], explainable: processes.has(subject) });
  return (
    <>
      <div className="section-head">
        <h2>{f ? (open.length === 0 ? "No open findings" : `${count(open.length, "finding")} open`) : "Findings"}</h2>
        {f && <p>{`${rules.length - blind} of ${count(rules.length, "check")} ran at ${formatSince(f.at)}${blind === 0 ? "" : `; ${blind} ${blind === 1 ? "needs" : "need"} hardware or sources that are not here`}.`}</p>}
      </div>
      {findings.error && <Problem message={findings.error} retry={findings.retry} stale={f !== null} />}
      {history.error && <Problem message={history.error} retry={history.retry} stale={history.data !== null} />}
      {linked.error && <Problem message={linked.error} retry={linked.retry} />}
      {place.subject !== "" && linked.data?.length === 0 && !linked.loading && !all.some((r) => r.id === place.subject) && <p className="note">The finding of this link is no longer on record.</p>}
      {open.slice(0, inFull).map((r) => (
        <FindingDetail key={r.id} finding={r} {...shared(r.rule, r.subject)} />
      ))}
      {open.length > inFull && (
        <section className="card" aria-labelledby="also-open">
          <h2 id="also-open">Also open</h2>
          {open.slice(inFull).map((r) => (
            <Folded key={r.id} finding={r} chosen={r.id === place.subject} {...shared(r.rule, r.subject)} />
          ))}
        </section>
      )}
      {w.instance !== "" && all.length > 0 && <Timeline findings={all} titles={titles} />}
      <section className="card" aria-labelledby="closed">
        <div className="section-head">
          <h2 id="closed">Closed</h2>
        </div>
        {closed.length === 0 ? (
          <p className="dim">No closed findings on record.</p>
        ) : (
          listed.map((r) => <Folded key={r.id} finding={r} chosen={r.id === place.subject} {...shared(r.rule, r.subject)} />)
        )}
        {closed.length > listed.length && <p className="note">{closed.length - listed.length} older findings are not listed.</p>}
      </section>
      <SilenceList silences={silences} titles={titles} />
      <Rules rules={rules} />
    </>
  );
}

/** A finding in one line; its details are read once it is open. */
function Folded({ chosen, ...detail }: FindingProps & { chosen: boolean }) {
  const { tick } = useMachine();
  const [open, setOpen] = useState(chosen);
  useEffect(() => {
    if (chosen) setOpen(true);
  }, [chosen]);
  const f = detail.finding;
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        {formatSince(f.since)}, for {lengthOf(f, tick)}: {f.title}
      </summary>
      {open && <FindingDetail {...detail} />}
    </details>
  );
}

/** The finding of the link, when it is not loaded yet: alerts and annotations link
 * to findings that closed long ago. */
function useLinked(id: string, atHand: boolean) {
  const name = asking("findings", { id });
  return useResource<FindingsRecord[]>(id === "" || atHand ? null : name, async (s) => (await getDocument<Findings>(name, s)).findings ?? []);
}

/** The findings of the page's window, as far back as they are kept. */
function useHistory() {
  const { window: w } = useMachine();
  const name = asking("findings", { ...steady(w) });
  return useResource<FindingsRecord[]>(w.instance === "" ? null : name, async (s) => (await getDocument<Findings>(name, s)).findings ?? []);
}
