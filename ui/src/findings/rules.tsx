// Every rule with its answer; "not checked" is an answer, with its reason.
import { useState } from "react";
import type { FindingsAnswer, FindingsRecord, FindingsRuleStat, FindingsSeverity } from "../api/types";
import { formatLength } from "../format/time";
import { IconGood, IconUnknown, IconWarning } from "../frame/icons";
import { levelIcons } from "../frame/level";
import { firstSentence, sentence } from "../words/empty";
import { Sentence } from "../words/term";

const answers: Record<FindingsAnswer, { word: string; icon: typeof IconGood; look: string }> = {
  fires: { word: "fires", icon: IconWarning, look: "chip-warn" },
  "cannot tell": { word: "not checked", icon: IconUnknown, look: "" },
  silent: { word: "silent", icon: IconGood, look: "chip-good" },
};
const order = Object.keys(answers) as FindingsAnswer[];
/** A rule that fires looks like its worst finding: a note is not red. */
const fired: Record<FindingsSeverity, string> = { critical: "chip-bad", warning: "chip-warn", info: "" };

/** open: the open findings, the worst first. */
export function Rules({ rules, open }: { rules: FindingsRuleStat[]; open: FindingsRecord[] }) {
  const [only, setOnly] = useState<FindingsAnswer | "">("");
  const shown = rules.filter((r) => only === "" || r.answer === only).sort((a, b) => order.indexOf(a.answer) - order.indexOf(b.answer) || (a.title < b.title ? -1 : 1));
  return (
    <section className="card" aria-labelledby="rules">
      <div className="section-head">
        <h2 id="rules">Checks</h2>
        <div className="ranges" role="group" aria-label="Rules by answer">
          {(["", ...order] as const).map((a) => (
            <button key={a} type="button" aria-pressed={only === a} onClick={() => setOnly(a)}>
              {a === "" ? `all ${rules.length}` : `${answers[a].word} ${rules.filter((r) => r.answer === a).length}`}
            </button>
          ))}
        </div>
      </div>
      <div className="scroll" tabIndex={0} role="group" aria-label="Rules">
        <table className="data rules" role="table">
          <thead role="rowgroup">
            <tr role="row">
              {["Rule", "Answer", "What it looks for"].map((h) => (
                <th key={h} role="columnheader" scope="col">
                  {h}
                </th>
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {shown.map((r) => (
              <RuleRow key={r.name} rule={r} worst={r.answer === "fires" ? open.find((f) => f.rule === r.name)?.severity : undefined} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function RuleRow({ rule: r, worst }: { rule: FindingsRuleStat; worst: FindingsSeverity | undefined }) {
  const { word, icon, look } = answers[r.answer];
  const Icon = worst ? levelIcons[worst] : icon;
  const { first, rest } = firstSentence(r.doc);
  return (
    <tr role="row" data-rule={r.name} data-answer={r.answer} data-level={worst}>
      <th role="rowheader" scope="row">
        {r.title}
      </th>
      <td role="cell">
        <span className={`chip ${worst ? fired[worst] : look}`}>
          <Icon /> {word}
        </span>
        {r.reason && <div className="small dim">{sentence(r.reason)}</div>}
        {(r.near ?? []).map((n) => (
          <div key={`${n.subject} ${n.instance}`} className="small" data-near={n.subject}>
            Near: {n.text}
          </div>
        ))}
      </td>
      <td role="cell">
        <Sentence text={first} />
        <details className="small">
          <summary>In full</summary>
          <Sentence text={rest} /> The rule looks at the last {formatLength(r.windows[0])} and the last {formatLength(r.windows[1])}.
        </details>
      </td>
    </tr>
  );
}
