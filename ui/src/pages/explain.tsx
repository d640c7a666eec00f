// Where the time of a process goes: the causes in words, then the tree.
import { asking, getDocument } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import type { ExplainFoundCause, Explanation } from "../api/types";
import { formatRange } from "../explain/amount";
import { Comparison } from "../explain/compare";
import { OfMachine } from "../explain/machine";
import { BeforePicker, Candidates, PerPicker, ProcessPicker } from "../explain/picker";
import { Picture } from "../explain/picture";
import { parts } from "../explain/rows";
import { Tree, useOpen } from "../explain/tree";
import { verdictOn, verdictOnBoth, wholeOf } from "../explain/words";
import "../explain/explain.css";
import { formatValue } from "../format/number";
import { formatLength } from "../format/time";
import { IconGood, IconInfo, IconWarning } from "../frame/icons";
import { levelIcons, Severity } from "../frame/level";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { useMachine } from "../state/machine";
import { goTo, type Per, type Span } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { steady } from "../state/window";
import { sentence } from "../words/empty";
import { Sentence } from "../words/term";

export default function ExplainPage() {
  const place = usePlace();
  const { subject, before, beside, per } = place;
  const { window: w } = useMachine();
  const now = useExplanation(subject, steady(w), per);
  const then = useExplanation(before ? (beside[0] ?? subject) : "", before ?? steady(w), per);
  const comparing = subject !== "" && before !== null;
  return (
    <>
      <div className="section-head">
        <h2>{subject === "" ? "Explain" : `Where the time of ${subject} goes`}</h2>
        {subject !== "" && (
          <p>
            <PlaceLink to={goTo(place, "processes", subject)}>Its requests to the kernel</PlaceLink>
          </p>
        )}
      </div>
      <div className="controls">
        <ProcessPicker label="Process to explain" value={subject} choose={(name) => move({ subject: name })} />
        {comparing && <span className="beside">beside</span>}
        {comparing && <ProcessPicker label="Process to compare with" value={beside[0] ?? subject} choose={(name) => move({ beside: name === "" || name === subject ? [] : [name] })} />}
        {subject !== "" && <PerPicker requests={Boolean(now.data?.tree.requests)} />}
        {subject !== "" && <BeforePicker />}
      </div>
      {subject === "" ? <Candidates /> : comparing ? <Both then={then} now={now} /> : <One answer={now} />}
    </>
  );
}

function useExplanation(process: string, { from, to }: Span, per: Per): Resource<Explanation> {
  const { window: w } = useMachine();
  const name = asking("explain", { process, instance: w.instance, from, to, per: per === "second" ? "" : per });
  return useResource<Explanation>(process === "" || w.instance === "" ? null : name, (s) => getDocument(name, s));
}

/** An answer that is not there yet, or failed. */
function Pending({ answer }: { answer: Resource<Explanation> }) {
  const { subject, per } = usePlace();
  const { window: w } = useMachine();
  return (
    <>
      {answer.error && <Problem message={answer.error} retry={answer.retry} stale={answer.data?.tree.subject === subject} />}
      {answer.error && per === "request" && (
        <p>
          <button type="button" className="text-button" onClick={() => move({ per: "second" })}>
            Show the cost per second
          </button>
        </p>
      )}
      {answer.loading && !answer.data && <p className="empty">Adding up {formatLength(w.to - w.from)} of {subject}.</p>}
    </>
  );
}

function One({ answer }: { answer: Resource<Explanation> }) {
  const { subject } = usePlace();
  const [open, toggle, setOpen] = useOpen();
  // An answer about another process is not an old state of this one.
  const e = answer.data?.tree.subject === subject ? answer.data : null;
  return (
    <>
      <Pending answer={e ? answer : { ...answer, data: null }} />
      {e && (
        <div className={answer.loading ? "panel-body dimmed" : "panel-body"} data-explained={e.tree.subject} data-loading={answer.loading}>
          <VerdictOf explanation={e} show={setOpen} />
          <section className="card" aria-labelledby="tree">
            <div className="section-head">
              <h2 id="tree">Where its time goes</h2>
              <p>Open a row to see its numbers.</p>
            </div>
            <Picture trees={[{ tree: e.tree }]} />
            {e.tree.rows?.length ? <Tree tree={e.tree} open={open} toggle={toggle} /> : <Nothing explanation={e} />}
            <Key />
          </section>
          {e.tree.machine && <OfMachine machine={e.tree.machine} />}
          <Doubts of={[e]} />
          <Findings of={e} />
        </div>
      )}
    </>
  );
}

function Both({ then, now }: { then: Resource<Explanation>; now: Resource<Explanation> }) {
  const [open, toggle] = useOpen();
  const [a, b] = [now.data, then.data];
  return (
    <>
      <Pending answer={now} />
      {!now.error && <Pending answer={then} />}
      {a && b && (
        <div className={now.loading || then.loading ? "panel-body dimmed" : "panel-body"} data-explained={a.tree.subject} data-loading={now.loading || then.loading}>
          <section className="verdict verdict-info" aria-label="Verdict">
            <IconInfo />
            <div>
              <h2>{verdictOnBoth(b.tree, a.tree)}</h2>
              <p>Before: {wholeOf(b.tree)}</p>
              <p>After: {wholeOf(a.tree)}</p>
            </div>
          </section>
          <section className="card" aria-labelledby="tree">
            <div className="section-head">
              <h2 id="tree">What changed</h2>
              <p>The largest change is first.</p>
            </div>
            <Picture
              trees={[
                { name: "Before", tree: b.tree },
                { name: "After", tree: a.tree },
              ]}
            />
            {a.tree.rows?.length || b.tree.rows?.length ? <Comparison before={b.tree} after={a.tree} open={open} toggle={toggle} /> : <Nothing explanation={a} />}
            <Key />
          </section>
          <Doubts of={[b, a]} names={["Before", "After"]} />
        </div>
      )}
    </>
  );
}

function VerdictOf({ explanation: e, show }: { explanation: Explanation; show: (ids: string[]) => void }) {
  const v = verdictOn(e);
  const Icon = levelIcons[v.level];
  const causes = e.causes ?? [];
  return (
    <section className={`verdict verdict-${v.level}`} aria-label="Verdict" data-level={v.level} data-cause={causes[0]?.rule ?? ""}>
      <Icon />
      <div>
        <h2>{v.headline}</h2>
        {causes[0] && <CauseText cause={causes[0]} show={show} />}
        {causes.length > 1 && (
          <ol className="causes" start={2} aria-label="Further causes">
            {causes.slice(1).map((c) => (
              <li key={c.rule} data-cause={c.rule}>
                <strong>{c.title}</strong>
                <CauseText cause={c} show={show} />
              </li>
            ))}
          </ol>
        )}
        {e.tree.tee && <p data-tee={e.tree.tee.share.value}>{e.tree.tee.title}</p>}
        <p>{v.detail}</p>
      </div>
    </section>
  );
}

function CauseText({ cause: c, show }: { cause: ExplainFoundCause; show: (ids: string[]) => void }) {
  return (
    <>
      {c.rows && c.rows.length > 0 && (
        <p>
          <button type="button" className="link-button" onClick={() => show(c.rows ?? [])}>
            Open its rows
          </button>
        </p>
      )}
      {c.advice && (
        <p>
          <strong>What to do. </strong>
          <Sentence text={sentence(c.advice)} />
        </p>
      )}
    </>
  );
}

function Nothing({ explanation: e }: { explanation: Explanation }) {
  const blind = e.tree.blind ?? [];
  return <p className="empty">{`No data on where the time of ${e.tree.subject} went in this window${blind.length > 0 ? `: ${blind.join(" ")}` : ". Either it or the monitor did not run."}`}</p>;
}

function Key() {
  return (
    <p className="key">
      {(Object.keys(parts) as (keyof typeof parts)[]).map((p) => (
        <span key={p}>
          <span className={`share-fill share-${p}`} />
          {parts[p]}
        </span>
      ))}
      <span>
        <span className="share-fill share-tee" />
        the TEE
      </span>
      <span>
        <span className="share-fill share-rest" />
        not explained
      </span>
      <span>
        <span className="share-range" />
        95 % interval
      </span>
    </p>
  );
}

/** Whether the numbers agree with independent measurements, and the blind spots. */
function Doubts({ of: list, names = [] }: { of: Explanation[]; names?: string[] }) {
  const said = (i: number, text: string) => (names[i] ? `${names[i]}: ${text}` : text);
  const checks = list.flatMap((e, i) => (e.tree.checks ?? []).map((c) => ({ ...c, text: said(i, c.text) })));
  // Blind spots of both sides are listed once.
  const blind = [...new Set(list.flatMap((e, i) => (e.tree.blind ?? []).map((b) => (list.every((o) => o.tree.blind?.includes(b)) ? b : said(i, b)))))];
  const broken = checks.filter((c) => !c.holds).length;
  if (checks.length === 0 && blind.length === 0) return null;
  return (
    <section className="card" aria-labelledby="doubts">
      <h2 id="doubts">{checks.length === 0 ? "Blind spots" : broken === 0 ? "The numbers agree with independent measurements" : `${broken} of ${checks.length} checks of these numbers fail`}</h2>
      <ul className="checks">
        {checks
          .toSorted((a, b) => Number(a.holds) - Number(b.holds))
          .map((c, i) => (
            <li key={i} data-holds={c.holds}>
              <span className={c.holds ? "holds" : "breaks"}>{c.holds ? <IconGood /> : <IconWarning />}</span>
              <span>
                <strong>{c.holds ? "passes" : "fails"}: </strong>
                <Sentence text={sentence(c.text)} />{" "}
                <span className="dim small">
                  explained {formatValue(c.explained, "cores")}, measured {formatValue(c.measured, "cores")}
                </span>
              </span>
            </li>
          ))}
        {blind.map((b) => (
          <li key={b} data-blind="">
            <span className="breaks">
              <IconWarning />
            </span>
            <span>
              <strong>blind: </strong>
              <Sentence text={sentence(b)} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Findings({ of: e }: { of: Explanation }) {
  const place = usePlace();
  const list = e.findings ?? [];
  if (list.length === 0) return null;
  return (
    <section className="card" aria-labelledby="found">
      <h2 id="found">Findings in this window</h2>
      <ul className="candidates">
        {list.map((f) => (
          <li key={f.id}>
            <Severity level={f.severity} /> <PlaceLink to={goTo(place, "findings", f.id)}>{f.title}</PlaceLink>
            {f.share && <span className="dim small"> {formatRange({ value: 0, low: f.share[0], high: f.share[1] }, "ratio")} of its time</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
