// Where a process spends its time: the causes in words, the picture, then the tree.
import { useState } from "react";
import { asking, getDocument } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import type { ExplainFoundCause, Explanation } from "../api/types";
import { Comparison, sidesOf } from "./compare";
import { OfMachine } from "./machine";
import { BeforePicker, PerPicker, ProcessPicker } from "./picker";
import { Rivals } from "./rivals";
import { Picture } from "./picture";
import { kinds } from "./rows";
import { Tree, useOpen } from "./tree";
import { starved, verdictOnBoth, waitingOfBoth } from "./words";
import "./explain.css";
import { formatValue } from "../format/number";
import { formatLength } from "../format/time";
import { IconGood, IconInfo, IconWarning } from "../frame/icons";
import { levelIcons } from "../frame/level";
import { Problem } from "../frame/problem";
import { useMachine } from "../state/machine";
import type { Per, Span } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { steady } from "../state/window";
import { sentence } from "../words/empty";
import { subjectOf } from "../words/problem";
import { openFindings } from "../words/verdict";
import { Sentence } from "../words/term";

/** The window's explanation of the process, alone or next to that of another window or process. */
export function Explained() {
  const place = usePlace();
  const { subject, before, beside, per } = place;
  const { window: w, findings } = useMachine();
  const now = useExplanation(subject, steady(w), per);
  const other = beside[0] ?? "";
  const compared = before !== null || other !== "";
  const then = useExplanation(compared ? other || subject : "", before ?? steady(w), per);
  const requests = Boolean(now.data?.tree.requests);
  const mine = [...(now.data?.findings ?? []), ...openFindings(findings.data)].filter((f, i, all) => subjectOf(f) === subject && all.findIndex((o) => o.id === f.id) === i);
  return (
    <>
      <div className="controls">
        <PerPicker requests={requests} />
        <BeforePicker findings={mine} per={requests ? "request" : per} />
        <ProcessPicker label="Process to compare with" value={other} choose={(name) => move({ beside: name === "" || name === subject ? [] : [name], per: requests ? "request" : per })} />
        {other && !before && (
          <button type="button" className="text-button" onClick={() => move({ beside: [] })}>
            Do not compare
          </button>
        )}
      </div>
      {compared ? <Both then={then} now={now} /> : <One answer={now} />}
    </>
  );
}

function useExplanation(process: string, { from, to }: Span, per: Per): Resource<Explanation> {
  const { window: w } = useMachine();
  const name = asking("explain", { process, job: w.job, instance: w.instance, from, to, per: per === "second" ? "" : per });
  return useResource<Explanation>(process === "" || w.instance === "" ? null : name, (s) => getDocument(name, s));
}

/** An answer that is missing or failed. */
function Pending({ answer }: { answer: Resource<Explanation> }) {
  const { subject, per } = usePlace();
  const { window: w, findings } = useMachine();
  const early = findings.data?.summary.youth;
  return (
    <>
      {answer.error && early && <p className="empty">{early}</p>}
      {answer.error && !early && <Problem message={answer.error} retry={answer.retry} stale={answer.data?.tree.subject === subject} />}
      {answer.error && per === "request" && (
        <p>
          <button type="button" className="text-button" onClick={() => move({ per: "second" })}>
            Show the time per second instead of per request
          </button>
        </p>
      )}
      {!answer.error && !answer.data && <p className="empty explain-loading">Loading the explanation of {formatLength(w.to - w.from)} of {subject}.</p>}
    </>
  );
}

function One({ answer }: { answer: Resource<Explanation> }) {
  const { subject } = usePlace();
  const [open, toggle, setOpen] = useOpen();
  const [lit, light] = useState("");
  // An answer about another process is not an old state of this one.
  const e = answer.data?.tree.subject === subject ? answer.data : null;
  return (
    <>
      <Pending answer={e ? answer : { ...answer, data: null }} />
      {e && (
        <div className={answer.loading ? "panel-body dimmed" : "panel-body"} data-explained={e.tree.subject} data-loading={answer.loading}>
          <VerdictOf explanation={e} show={setOpen} />
          {e.tree.rivals && <Rivals of={e.tree.rivals} />}
          <section className="card" aria-labelledby="tree">
            <div className="section-head">
              <h2 id="tree">Where {e.tree.subject} spends its time</h2>
              <p>All the time in which the process has work. Click a part for details.</p>
            </div>
            <Picture trees={[{ tree: e.tree }]} light={light} />
            {e.tree.rows?.length ? <Tree tree={e.tree} open={open} toggle={toggle} lit={lit} /> : <Nothing explanation={e} />}
            <Key />
          </section>
          {e.tree.machine && <OfMachine machine={e.tree.machine} />}
          <Doubts of={[e]} />
        </div>
      )}
    </>
  );
}

function Both({ then, now }: { then: Resource<Explanation>; now: Resource<Explanation> }) {
  const [open, toggle] = useOpen();
  const [a, b] = [now.data, then.data];
  const sides = a && b && sidesOf(b.tree, a.tree);
  return (
    <>
      <Pending answer={now} />
      {!now.error && <Pending answer={then} />}
      {a && b && sides && (
        <div className={now.loading || then.loading ? "panel-body dimmed" : "panel-body"} data-explained={a.tree.subject} data-loading={now.loading || then.loading}>
          <section className="verdict verdict-info" aria-label="Verdict">
            <IconInfo />
            <div>
              <h2>{verdictOnBoth(b, a)}</h2>
              {!starved(b, a) && <p data-waiting>{waitingOfBoth(b.tree, a.tree, sides)}</p>}
              {[b, a].map((e, i) => (
                <p key={sides[i]}>
                  {sides[i]}: {e.summary.whole}
                </p>
              ))}
            </div>
          </section>
          <section className="card" aria-labelledby="tree">
            <div className="section-head">
              <h2 id="tree">{sides[0] === "Before" ? "What changed" : "What differs"}</h2>
              <p>The largest difference is first.</p>
            </div>
            <Picture
              trees={[
                { name: sides[0], tree: b.tree },
                { name: sides[1], tree: a.tree },
              ]}
            />
            {a.tree.rows?.length || b.tree.rows?.length ? <Comparison before={b.tree} after={a.tree} open={open} toggle={toggle} /> : <Nothing explanation={a} />}
            <Key />
          </section>
          <Doubts of={[b, a]} names={sides} />
        </div>
      )}
    </>
  );
}

function VerdictOf({ explanation: e, show }: { explanation: Explanation; show: (ids: string[]) => void }) {
  const s = e.summary;
  const Icon = levelIcons[s.level];
  const causes = e.causes ?? [];
  return (
    <section className={`verdict verdict-${s.level}`} aria-label="Verdict" data-level={s.level} data-cause={causes[0]?.rule ?? ""}>
      <Icon />
      <div>
        <h2>{s.headline}</h2>
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
        {(e.silent ?? []).map((r) => (
          <p key={r.rule} data-silent={r.rule}>
            {r.text}
          </p>
        ))}
        <p>{s.whole}</p>
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
            Show the rows of this cause
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
  return <p className="empty">{`No data on how ${e.tree.subject} spent its time in this window${blind.length > 0 ? `: ${blind.join(" ")}` : ". Either the process or the monitor did not run."}`}</p>;
}

function Key() {
  return (
    <p className="key">
      {(Object.keys(kinds) as (keyof typeof kinds)[]).map((p) => (
        <span key={p}>
          <span className={`share-fill share-${p}`} />
          {kinds[p]}
        </span>
      ))}
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
