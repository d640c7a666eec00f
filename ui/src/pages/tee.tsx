// This machine's trusted execution environments, with evidence.
import type { TEE } from "../api/types";
import { LinesChart, TEEPanel } from "../charts/charts";
import { latency, subjects, teeCharts, type About, type TEEChart } from "../charts/tee";
import { Workloads } from "../explain/workloads";
import { IconGood, IconInfo, IconUnknown, IconWarning } from "../frame/icons";
import { badgeOf, kindName, teeName, withArticle } from "../frame/tee-badge";
import { useMachine } from "../state/machine";
import { because, blindReason, sentence } from "../words/empty";
import { Sentence } from "../words/term";

export default function TEEPage() {
  const { platform, sources, window: w } = useMachine();
  const p = platform.data;
  if (!p) return <p className="empty">Loading the machine's description.</p>;
  const tees = p.tees ?? [];
  const badge = badgeOf(tees);
  const here = tees.filter((t) => t.state === "here");
  const level = badge.level === "here" ? "good" : badge.level === "none" ? "info" : "warning";
  const all = teeCharts(tees, sources.data, w);
  const shown = (Object.keys(subjects) as About[]).map((about) => ({ about, charts: all.filter((c) => c.about === about) })).filter((s) => s.charts.length > 0);
  const Icon = badge.level === "here" ? IconGood : badge.level === "none" ? IconInfo : IconUnknown;
  return (
    <>
      <section className={`verdict verdict-${level}`} aria-label="Verdict">
        <Icon />
        <div>
          <h2>
            <Sentence text={headline(tees)} />
          </h2>
          <p>{here.length > 0 ? "The kernel and the CPU report a TEE. A hypervisor could fake these reports; nothing was attested." : "The checks and their results are below."}</p>
        </div>
      </section>
      {here.some((t) => t.facts?.active && (t.kind === "sgx" || t.facts.role === "guest")) && <Workloads guest={here.some((t) => t.facts?.active && t.facts.role === "guest")} />}
      {here.map((t) => (
        <Facts key={t.kind} tee={t} />
      ))}
      {shown.map(({ about, charts }, i) => (
        <section key={about} aria-label={subjects[about]}>
          <div className="section-head">
            <h2>{subjects[about]}</h2>
          </div>
          {stacked(charts) && (
            <div className="stack" role="group" aria-label={`${subjects[about]}, on one time axis`}>
              {charts.filter((c) => c.axis).map((c) => (
                <TEEPanel key={c.title} chart={c} height={140} />
              ))}
              {shown.findIndex((s) => stacked(s.charts)) === i && <LinesChart {...latency(w)} height={140} />}
            </div>
          )}
          <div className="grid">
            {charts.filter((c) => !c.axis || !stacked(charts)).map((c) => (
              <TEEPanel key={c.title} chart={c} />
            ))}
          </div>
        </section>
      ))}
      <Blind />
      <section className="card" aria-labelledby="answers">
        <div className="section-head">
          <h2 id="answers">Checks</h2>
        </div>
        <div className="scroll" tabIndex={0} role="group" aria-label="Answers by kind">
          <table className="data answers">
            <thead>
              <tr>
                <th scope="col">Kind</th>
                <th scope="col">Answer</th>
                <th scope="col">Why</th>
              </tr>
            </thead>
            <tbody>
              {tees.map((t) => (
                <tr key={t.kind}>
                  <th scope="row">
                    {kindName(t.kind)}
                    <div className="dim small">{t.doc}</div>
                  </th>
                  <td>
                    <Answer state={t.state} />
                  </td>
                  <td>{t.state === "here" ? (t.facts?.why ? sentence(t.facts.why) : "See the evidence above.") : sentence(t.reason ?? "no reason given")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
    </>
  );
}

/** Several charts share one time axis. */
function stacked(charts: TEEChart[]): boolean {
  return charts.filter((c) => c.axis).length > 1;
}

/** What the hardware or hypervisor hides, with the reason. */
function Blind() {
  const { sources } = useMachine();
  const blind = (sources.data ?? []).filter((s) => s.blind);
  if (blind.length === 0) return null;
  return (
    <section className="card" aria-labelledby="blind">
      <h2 id="blind">Unavailable counters</h2>
      <ul className="evidence">
        {blind.map((s) => (
          <li key={s.name} data-blind={s.name}>
            <span className="chip chip-warn">
              <IconWarning /> {s.name}: unavailable here
            </span>{" "}
            <Sentence text={because(s.doc.replace(/\.$/, ""), { reason: blindReason(s), remedy: s.remedy })} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function says({ kind, variant, role }: NonNullable<TEE["facts"]>): string {
  const name = teeName(kind, variant);
  return { guest: `This machine runs inside ${withArticle(name)} guest.`, host: `This machine can run ${name}.`, device: `This machine has ${withArticle(name)}.` }[role];
}

function headline(tees: TEE[]): string {
  const here = tees.flatMap((t) => (t.state === "here" && t.facts ? [t.facts] : []));
  const active = here.filter((f) => f.active);
  const debug = active.some((f) => f.debug) ? " The TEE runs in debug mode, which disables its protection." : "";
  if (active.length > 0) return active.map(says).join(" ") + debug;
  if (here.length > 0) return here.map((f) => `${teeName(f.kind, f.variant)} is here but not active.`).join(" ");
  const unsure = tees.filter((t) => t.state === "could not tell");
  if (unsure.length > 0) return `Unknown whether this machine has ${unsure.map((t) => kindName(t.kind)).join(" or ")}.`;
  return "This machine has no TEE.";
}

function Answer({ state }: { state: string }) {
  const look = { here: "chip-good", "not here": "", "could not tell": "chip-warn" }[state] ?? "";
  const Icon = state === "here" ? IconGood : state === "not here" ? IconInfo : IconUnknown;
  return (
    <span className={`chip ${look}`}>
      <Icon /> {state}
    </span>
  );
}

function Facts({ tee }: { tee: TEE }) {
  const f = tee.facts;
  if (!f) return null;
  return (
    <section className="card" aria-label={`Evidence for ${teeName(f.kind, f.variant)}`}>
      <div className="section-head">
        <h2>
          {teeName(f.kind, f.variant)} {f.role}
        </h2>
        <span className={`chip ${f.active ? "chip-good" : "chip-warn"}`}>{f.active ? "active" : "not active"}</span>
        {f.debug && <span className="chip chip-bad">debug: no protection</span>}
        {f.variant && <span className="chip">{f.variant}</span>}
      </div>
      {f.why && <p>{sentence(f.why)}</p>}
      {(f.evidence ?? []).length > 0 && <div className="scroll" tabIndex={0} role="group" aria-label="Evidence">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Source</th>
              <th scope="col">Value</th>
            </tr>
          </thead>
          <tbody>
            {(f.evidence ?? []).map((e, i) => (
              <tr key={i}>
                <th scope="row" className="mono">
                  {e.source}
                </th>
                <td className="mono">{e.value}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>}
    </section>
  );
}
