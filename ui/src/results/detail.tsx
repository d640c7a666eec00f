// One document, or several results side by side: the verdict in words, the evidence, and how to
// reproduce it.
import { useState } from "react";
import { getDocument } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import type { Origin, ResultExperiment } from "../api/types";
import { formatLength, formatSince } from "../format/time";
import { tabOf, Tabs } from "../frame/tabs";
import { usePlace } from "../state/use-place";
import { designText, gradeMeans, shellLine } from "../words/benchmark";
import { Sentence } from "../words/term";
import { Conclusions } from "./conclusions";
import { Command } from "./command";
import { caseIds, metricLabel, primaryOf, tellingCase } from "./document";
import { Attribution } from "./attribution";
import { drawingsOf, Figures, useDrawings } from "./drawings";
import { Meanwhile } from "./meanwhile";
import { ServedTables, tablesOf, useTables } from "./served";
import { brief, Comparisons, Differences, Environments, Guards, Missing, Runs } from "./tables";

const tabs = { result: "Result", why: "Why", trust: "Trust", reproduce: "Reproduce" };

/** Call is the name of the document under the API. */
export function Detail({ doc, call }: { doc: ResultExperiment; call: string }) {
  const cases = caseIds(doc);
  const [kase, setCase] = useState(tellingCase(doc));
  const [metric, setMetric] = useState(primaryOf(doc));
  const drawings = useDrawings(call, kase, metric);
  const tables = useTables(call, kase, metric);
  const envs = (doc.environments ?? []).map((v) => v.env_id);
  const ran = (doc.runs ?? []).length > 0;
  const caseChoice = cases.length > 1 && (
    <label className="small dim">
      Case{" "}
      <select value={kase} onChange={(e) => setCase(e.target.value)}>
        {cases.map((c) => (
          <option key={c}>{c}</option>
        ))}
      </select>
    </label>
  );
  const origin = useOrigin(call);
  const tab = tabOf(tabs, usePlace());
  return (
    <>
      <Conclusions doc={doc} />
      {origin.data && (
        <p className="small" title={origin.data.line}>
          Origin: <b>{origin.data.word}</b>
        </p>
      )}
      <Tabs label="Parts of the result" tabs={tabs} current={tab} />
      {tab === "result" && (
        <>
          <section className="card" aria-labelledby="costs">
            {(doc.comparisons ?? []).length > 0 ? (
              <>
                <div className="section-head">
                  <h2 id="costs">Cost ratios</h2>
                  <p>A cost ratio above 1 is worse, whether lower or higher values of the metric are better: at 1.25x the same work takes 1.25 times as long.</p>
                </div>
                <Figures drawings={drawings} section="costs" none="No ratio to draw: the comparisons below state why." />
                <ServedTables tables={tables} section="costs" envs={envs} headed />
                <details>
                  <summary>All comparisons, with their medians</summary>
                  <Comparisons doc={doc} />
                </details>
              </>
            ) : (
              <>
                <div className="section-head">
                  <h2 id="costs">Values</h2>
                  <p>Medians of the runs that are not excluded.</p>
                </div>
                <ServedTables tables={tables} section="costs" envs={envs} none="This result has no values." />
              </>
            )}
          </section>
          {drawingsOf(drawings, "start").length > 0 && (
            <section className="card" aria-labelledby="start">
              <div className="section-head">
                <h2 id="start">Start</h2>
                <p>Where the time until the first answer goes. Building is not included.</p>
              </div>
              <Figures drawings={drawings} section="start" />
            </section>
          )}
          {drawingsOf(drawings, "ladder").length > 0 && (
            <section className="card" aria-labelledby="ladder">
              <div className="section-head">
                <h2 id="ladder">Ladder</h2>
                <p>What each layer adds, from the baseline upwards.</p>
                {caseChoice}
              </div>
              <Figures drawings={drawings} section="ladder" />
            </section>
          )}
          {tablesOf(tables, "scaling").length > 0 && (
            <section className="card" aria-labelledby="scaling">
              <div className="section-head">
                <h2 id="scaling">Scaling</h2>
                <p>How each arm scales, and what it costs at each point. An efficiency alone can hide a slow first point.</p>
              </div>
              <Figures drawings={drawings} section="scaling" />
              <ServedTables tables={tables} section="scaling" envs={envs} />
            </section>
          )}
          {ran && (
            <section className="card" aria-labelledby="distributions">
              <div className="section-head">
                <h2 id="distributions">All runs</h2>
                {caseChoice}
                {(doc.workload.metrics ?? []).length > 1 && (
                  <label className="small dim">
                    Metric{" "}
                    <select value={metric} onChange={(e) => setMetric(e.target.value)}>
                      {(doc.workload.metrics ?? []).map((d) => (
                        <option key={d.name} value={d.name}>
                          {metricLabel(doc, d.name)}
                        </option>
                      ))}
                    </select>
                  </label>
                )}
              </div>
              <Figures drawings={drawings} section="runs" />
              <ServedTables tables={tables} section="runs" envs={envs} />
            </section>
          )}
        </>
      )}
      {tab === "why" && (
        <>
          {ran && (
            <section className="card" aria-labelledby="why">
              <div className="section-head">
                <h2 id="why">Why</h2>
                <p>Counters of the monitor during the runs. A counter that changed with a cost is a hint, not a proof.</p>
                {caseChoice}
              </div>
              <Attribution document={call} />
              <Figures drawings={drawings} section="counters" />
              <ServedTables tables={tables} section="why" envs={envs} none={`The runs hold no counters: ${Object.values((doc.runs ?? [])[0]?.missing ?? {})[0] ?? "none were attached"}.`} />
            </section>
          )}
          <section className="card" aria-labelledby="differs">
            <div className="section-head">
              <h2 id="differs">What differs between the environments</h2>
              <p>Each of these differences may be a cause.</p>
            </div>
            <Differences doc={doc} />
          </section>
          {ran && doc.design.kind !== "unpaired" && <Meanwhile doc={doc} />}
        </>
      )}
      {tab === "trust" && (
        <>
          <section className="card" aria-labelledby="guards">
            <div className="section-head">
              <h2 id="guards">Warnings and refusals</h2>
              <p>Reasons to refuse or to doubt a verdict, with what would help.</p>
            </div>
            <Guards doc={doc} />
          </section>
          <section className="card" aria-labelledby="how">
            <h2 id="how">How it was measured</h2>
            <Facts doc={doc} origin={origin.data?.line ?? ""} />
          </section>
          <section className="card" aria-labelledby="harness">
            <div className="section-head">
              <h2 id="harness">What the harness itself costs</h2>
              <p>The harness's own cost is not subtracted from any value.</p>
            </div>
            <ServedTables tables={tables} section="harness" envs={envs} />
          </section>
          {tablesOf(tables, "published").length > 0 && (
            <section className="card" aria-labelledby="published">
              <div className="section-head">
                <h2 id="published">Published figures</h2>
                <p>Others measured these figures on other machines and with other methods. These figures do not affect the verdicts. The grey bands behind our cost ratios show them.</p>
              </div>
              <ServedTables tables={tables} section="published" envs={envs} />
            </section>
          )}
          {tablesOf(tables, "specification").length > 0 && (
            <section className="card" aria-labelledby="specification">
              <div className="section-head">
                <h2 id="specification">Beside the vendor's specification</h2>
                <p>The limits of the hardware, as the data sheet states them: specifications, not measurements. These limits do not affect the verdicts.</p>
              </div>
              <ServedTables tables={tables} section="specification" envs={envs} />
            </section>
          )}
          <section className="card" aria-labelledby="more">
            <h2 id="more">The document</h2>
            <details>
              <summary>Environments</summary>
              <Environments doc={doc} />
            </details>
            <details>
              <summary>What is missing, and why</summary>
              <Missing doc={doc} />
            </details>
            <details>
              <summary>Every run, {(doc.runs ?? []).length}</summary>
              <Runs doc={doc} />
            </details>
          </section>
        </>
      )}
      {tab === "reproduce" && (
        <section className="card" aria-labelledby="again">
          <h2 id="again">How to do it again</h2>
          {doc.design.kind === "unpaired" && <p>This is the command of the first result. Each other result has its own command on its own page.</p>}
          {(doc.tool.command ?? []).length > 0 ? <Command text={shellLine(doc.tool.command ?? [])} /> : <p className="dim">The document does not contain the command.</p>}
          <dl className="facts">
            <dt>Tool</dt>
            <dd>{`${doc.tool.name} ${doc.tool.version}`.trim()}</dd>
            <dt>Seed of the order</dt>
            <dd>{Number.isSafeInteger(doc.design.seed) ? doc.design.seed : "see the document: the number has more digits than a browser can store"}</dd>
            <dt>Document</dt>
            <dd className="mono">{doc.experiment_id}</dd>
            {(doc.cases ?? []).map((c) => (
              <JobFact key={c.case_id} name={c.case_id} identity={c.identity} />
            ))}
          </dl>
          <p>
            <a href={`api/teescope/v1/${call}`} download={`${doc.name || doc.workload.name}.json`}>
              Download the document as JSON
            </a>
          </p>
        </section>
      )}
    </>
  );
}

function JobFact({ name, identity }: { name: string; identity: string }) {
  return (
    <>
      <dt>Job {name}</dt>
      <dd className="mono" title={identity}>
        {brief(identity)}
      </dd>
    </>
  );
}

/** What is proved of where the document was made. */
function useOrigin(document: string): Resource<Origin> {
  const [path, ids] = document.split("?", 2);
  const call = `${path}/origin${ids ? `?${ids}` : ""}`;
  return useResource<Origin>(call, (s) => getDocument(call, s));
}

function Facts({ doc, origin }: { doc: ResultExperiment; origin: string }) {
  const w = doc.workload;
  const envs = (doc.environments ?? []).map((v, i) => (i === 0 ? `${v.env_id} (baseline)` : v.env_id));
  const runs = doc.runs ?? [];
  const odd = [...new Set(runs.map((r) => r.status))].filter((s) => s !== "ok").map((s) => `${runs.filter((r) => r.status === s).length} ${s}`);
  const took = doc.ended_at ? `, ${doc.design.kind === "unpaired" ? "over" : "took"} ${formatLength((Date.parse(doc.ended_at) - Date.parse(doc.started_at)) / 1000)}` : ", not ended";
  const rows: [string, string][] = [
    ["Workload", `${w.name}${w.version > 0 ? ` version ${w.version}` : ""}`],
    ["What it does", w.doc],
    ["Parameters from", doc.origin?.source ?? ""],
    ["Flaws of the original, and corrections here", doc.origin?.corrects ?? ""],
    ["Design", `${designText(doc.design.kind)}${doc.design.calibration ? ", both arms the same on purpose (A/A)" : ""}`],
    ["Grade", doc.design.grade ? `${doc.design.grade}, ${gradeMeans(doc.design.grade)}` : gradeMeans("")],
    ["Environments", envs.join(", ")],
    ["Runs", `${runs.length}${odd.length > 0 ? ` (${odd.join(", ")})` : ""}, ${doc.design.pairs_planned} pairs planned`],
    ["Measured", `${formatSince(doc.started_at)}${took}`],
    ["Origin", origin],
    ["Commit", doc.commit ? `${doc.commit.id}, of ${formatSince(doc.commit.at)}` : ""],
  ];
  return (
    <dl className="facts">
      {rows
        .filter(([, v]) => v !== "")
        .map(([k, v]) => (
          <div key={k} style={{ display: "contents" }}>
            <dt>{k}</dt>
            <dd>
              <Sentence text={v} />
            </dd>
          </div>
        ))}
    </dl>
  );
}
