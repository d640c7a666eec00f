// One finding: the verdict, the advice, its evidence and its history.
import { useEffect, useRef, useState } from "react";
import { asking, getDocument, getMarkdown } from "../api/client";
import { useResource } from "../api/resource";
import type { FindingsConfidence, QueryEvidence, FindingsRecord, FindingsSilence, Findings } from "../api/types";
import { QueryChart } from "../charts/charts";
import { Evidence } from "../explain/evidence";
import { formatValue, unitOf } from "../format/number";
import { formatSince } from "../format/time";
import { Severity } from "../frame/level";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { literal } from "../query/promql";
import { useMachine, WindowProvider } from "../state/machine";
import { copyText } from "../state/clipboard";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { firstSentence, sentence } from "../words/empty";
import { subjectOf, whomOf } from "../words/problem";
import { Sentence } from "../words/term";
import { SilenceForm } from "./silences";
import { around } from "./spans";
import { lengthOf } from "./timeline";

const confidences: Record<FindingsConfidence, string> = {
  high: "high: measured directly and completely",
  medium: "medium: an estimate, or a sign that may have another cause",
  low: "low: a guess that is worth checking",
};

export interface FindingProps {
  finding: FindingsRecord;
  /** The rule's title. */
  title: string;
  silences: FindingsSilence[];
  /** The subject is a process, whose time can be explained. */
  explainable: boolean;
  /** The rule's description: what it looks for. */
  doc?: string | undefined;
}

export function FindingDetail({ finding: f, title, silences, explainable, doc }: FindingProps) {
  const place = usePlace();
  const { tick, window: w } = useMachine();
  const elsewhere = f.instance !== undefined && w.instance !== "" && f.instance !== w.instance;
  const ref = useRef<HTMLElement>(null);
  const chosen = place.subject === f.id;
  useEffect(() => {
    if (chosen) ref.current?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const first = f.evidence?.[0];
  const window = around(f, tick);
  const silence = silences.find((s) => s.id === f.silenced);
  return (
    <article className="card finding" ref={ref} aria-label={f.title} data-finding={f.rule} data-subject={f.subject} aria-current={chosen ? "true" : undefined}>
      <div className="row">
        <Severity level={f.severity} />
        <span className="dim small">
          since {formatSince(f.since)}
          {f.until ? ` until ${formatSince(f.until)}` : ""} ({lengthOf(f, tick)}) · {f.subject}
          {f.runsIn && f.runsIn.length > 0 && ` in ${f.runsIn.join(", ")}${f.runsIn.length > 1 ? ", added up" : ""}`}
          {f.share ? ` · ${formatValue(f.share[0], "ratio")} to ${formatValue(f.share[1], "ratio")} of ${f.shareOf ?? "its time"}` : ""}
        </span>
        {f.silenced && <span className="chip chip-warn" title={silence?.comment}>{silence ? `silenced until ${formatSince(silence.until)}` : "silenced"}</span>}
      </div>
      <h2>{f.sentence ?? f.title}</h2>
      {elsewhere && <p className="note-warn">This finding is about {f.instance}, job {f.job}, not about the machine named above.</p>}
      {doc && (
        <p>
          <strong>{title}. </strong>
          <Sentence text={firstSentence(doc).first} />
        </p>
      )}
      {f.remedy && (
        <p>
          <strong>What to do. </strong>
          <Sentence text={sentence(f.remedy)} />
        </p>
      )}
      {f.cost && (
        <p>
          <strong>Cost. </strong>
          <Sentence text={sentence(f.cost)} />
        </p>
      )}
      {f.confidence && (
        <p>
          <strong>Confidence. </strong>
          {sentence(confidences[f.confidence] ?? f.confidence)}
        </p>
      )}
      {first?.expr &&
        (f.state === "open" ? (
          <EvidenceChart finding={f} of={first} />
        ) : (
          <WindowProvider from={window.from} to={window.to}>
            <EvidenceChart finding={f} of={first} />
          </WindowProvider>
        ))}
      <h3>Evidence</h3>
      {/* At the time when the rule last held, a query returns the same number. */}
      <Evidence evidence={f.evidence} window={{ from: window.from, to: Date.parse(f.lastSeen) / 1000 || window.to }} />
      <History finding={f} />
      {f.reference && (
        <p className="note">
          More: <Sentence text={f.reference} />
        </p>
      )}
      <div className="row finding-actions">
        {explainable && !elsewhere && (
          <PlaceLink to={{ ...goTo(place, "processes", subjectOf(f)), fixed: window }} className="button">
            Explain {subjectOf(f)} for this time
          </PlaceLink>
        )}
        <PlaceLink to={{ fixed: window, problem: "" }}>Show charts of this time</PlaceLink>
        <CopyMarkdown id={f.id} />
        {f.state === "open" && !f.silenced && <SilenceForm finding={f} title={title} />}
      </div>
    </article>
  );
}

/** The server's text of the finding, to the clipboard. */
function CopyMarkdown({ id }: { id: string }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    try {
      setSaid((await copyText(await getMarkdown(id))) ? "Copied" : "This browser does not let the page copy");
    } catch (e) {
      setSaid(sentence(e instanceof Error ? e.message : String(e)));
    }
  };
  return (
    <span>
      <button type="button" className="text-button" onClick={() => void copy()}>
        Copy as Markdown
      </button>{" "}
      <span className="dim small" role="status">
        {said}
      </span>
    </span>
  );
}

function EvidenceChart({ finding: f, of }: { finding: FindingsRecord; of: QueryEvidence }) {
  return <QueryChart title={`${whomOf(f)}: ${of.text}`} unit={unitOf(of.unit)} by={null} metrics={[]} expr={of.expr} />;
}

/** Other findings of the same rule about the same subject and unit. */
function History({ finding: f }: { finding: FindingsRecord }) {
  const place = usePlace();
  const { tick } = useMachine();
  const [open, setOpen] = useState(false);
  const name = asking("findings", { rule: f.rule, subject: literal(whomOf(f)), limit: 50 });
  const past = useResource<FindingsRecord[]>(open ? name : null, async (s) => ((await getDocument<Findings>(name, s)).findings ?? []).filter((r) => r.id !== f.id && r.rule === f.rule && whomOf(r) === whomOf(f) && r.job === f.job && r.instance === f.instance));
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Earlier and later findings</summary>
      {past.error && <Problem message={past.error} retry={past.retry} />}
      {past.loading && <p className="dim">Loading the history.</p>}
      {past.data?.length === 0 && <p className="dim">No other finding is on record.</p>}
      <ul className="evidence">
        {(past.data ?? []).map((p) => (
          <li key={p.id}>
            <PlaceLink to={{ ...goTo(place, "findings", p.id), fixed: around(p, tick) }}>{formatSince(p.since)}</PlaceLink>, for {lengthOf(p, tick)}: {p.title}
          </li>
        ))}
      </ul>
    </details>
  );
}
