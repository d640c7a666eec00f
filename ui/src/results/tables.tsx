// The tables that show fields of a result unchanged: comparisons, differences, guards,
// environments, missing values, every run.
import type { ReactNode } from "react";
import type { ResultComparison, ResultEnvironment, ResultExperiment, ResultLevel, ResultMetric } from "../api/types";
import { formatMeasure, rawMeasure, spaced } from "../format/measure";
import { formatValue } from "../format/number";
import { levelIcons } from "../frame/level";
import { armsText, costText, kindOf, levelOf, noRatio, securityText } from "../words/benchmark";
import { sentence } from "../words/empty";
import { Sentence } from "../words/term";
import { descOf, inOrder, metricLabel, missingOf } from "./document";
import { ArmName, VerdictChip } from "./marks";

type Doc = ResultExperiment;

/** The head of a column: text (a leading "#" makes it numeric), or more than text. */
type Column = string | { key: string; head: ReactNode; number: boolean };

/** A table of the page. */
export function Table({ name, columns, children }: { name: string; columns: Column[]; children: ReactNode }) {
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label={name}>
      <table className="data">
        <thead>
          <tr>
            {columns.map((c) => {
              const column = typeof c === "string" ? { key: c, head: c.replace("#", ""), number: c.startsWith("#") } : c;
              return (
                <th key={column.key} scope="col" className={column.number ? "num" : undefined}>
                  {column.head}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** A number with its raw value, or missing with its reason. */
function Num({ v, unit, why }: { v: number | null | undefined; unit: string; why?: string | undefined }) {
  if (v === null || v === undefined) return <td className="num missing">missing{why ? <span className="small">: {why}</span> : ""}</td>;
  return (
    <td className="num" title={rawMeasure(v, unit)}>
      {formatMeasure(v, unit)}
    </td>
  );
}

export function Comparisons({ doc }: { doc: Doc }) {
  const rows = doc.comparisons ?? [];
  return (
    <Table name="Comparisons" columns={["Metric", "Case", "Arms", "#Baseline", "#Treatment", "#Cost [interval]", "#Finds at least", "#Pairs", "Grade", "Verdict"]}>
      {rows.map((c, i) => (
        <ComparisonRow key={i} doc={doc} c={c} />
      ))}
    </Table>
  );
}

function ComparisonRow({ doc, c }: { doc: Doc; c: ResultComparison }) {
  const d = descOf(doc, c.metric);
  const cost = costText(c, d.better);
  return (
    <tr>
      <th scope="row" title={d.help}>
        {metricLabel(doc, c.metric)}
        {c.primary && <span className="small dim"> primary</span>}
      </th>
      <td>{c.case}</td>
      <td>{armsText(c)}</td>
      <Num v={c.baseline_median} unit={d.unit} why={noRatio(c)} />
      <Num v={c.treatment_median} unit={d.unit} why={noRatio(c)} />
      <td className="num" title={cost.raw}>
        {cost.text}
      </td>
      <Num v={c.mde} unit="ratio" />
      <td className="num">{c.n_pairs}</td>
      <td>{kindOf(c) === "stand-in" ? "none" : c.grade || "none"}</td>
      <td>
        <VerdictChip kind={kindOf(c)} material={c.material} />
      </td>
    </tr>
  );
}

/** All fields in which an arm differs from its baseline. */
export function Differences({ doc }: { doc: Doc }) {
  const pairs = [...new Map((doc.comparisons ?? []).filter((c) => (c.changed_dimensions ?? []).length > 0).map((c) => [armsText(c), c])).values()];
  if (pairs.length === 0) return <p className="dim">{(doc.environments ?? []).length < 2 ? "There is one environment." : "No readable field differs between the environments."}</p>;
  return pairs.map((c, i) => (
    <details key={armsText(c)} open={i === 0}>
      <summary>
        {armsText(c)}: {c.changed_dimensions!.length} {c.changed_dimensions!.length === 1 ? "field" : "fields"}
      </summary>
      <Table name={`What differs: ${armsText(c)}`} columns={["Field", c.baseline, c.treatment]}>
        {c.changed_dimensions!.map((d) => (
          <tr key={d.field}>
            <th scope="row" className="mono field">
              {d.field}
            </th>
            <td className="wrap">{d.baseline || <span className="dim">nothing recorded</span>}</td>
            <td className="wrap">{d.treatment || <span className="dim">nothing recorded</span>}</td>
          </tr>
        ))}
      </Table>
    </details>
  ));
}

export function Guards({ doc }: { doc: Doc }) {
  const order = { invalid: 0, warn: 1, info: 2 };
  const all = (doc.guards ?? []).toSorted((a, b) => order[a.level] - order[b.level]);
  if (all.length === 0) return <p className="dim">None: no guard refused or weakened the verdict.</p>;
  const one = (g: (typeof all)[number], i: number) => (
    <li key={i} data-guard={g.id}>
      <Level level={g.level} /> <code>{g.id}</code>
      <span className="block">
        <Sentence text={[[g.case, g.treatment, spaced(g.metric ?? "")].filter(Boolean).join(", "), g.message].filter(Boolean).join(": ")} />
      </span>
      {g.help && (
        <span className="small dim block">
          What helps: <Sentence text={sentence(g.help)} />
        </span>
      )}
    </li>
  );
  const loud = all.filter((g) => g.level !== "info");
  const notes = all.filter((g) => g.level === "info");
  return (
    <>
      {loud.length > 0 && <ul className="guards">{loud.map(one)}</ul>}
      {notes.length > 0 && (
        <details>
          <summary>{notes.length === 1 ? "1 note" : `${notes.length} notes`}</summary>
          <ul className="guards">{notes.map(one)}</ul>
        </details>
      )}
    </>
  );
}

function Level({ level }: { level: ResultLevel }) {
  const { word, severity } = levelOf(level);
  const Icon = levelIcons[severity];
  return (
    <span className={`severity severity-${severity}`}>
      <Icon /> {word}
    </span>
  );
}

const text = (m: { [key: string]: string } | null) => Object.entries(m ?? {}).filter(([, v]) => v !== "").map(([k, v]) => `${k} ${v}`).join(", ");
const some = (n: number, unit: string) => (n > 0 ? formatMeasure(n, unit) : "");

const fields: [string, string, (v: ResultEnvironment) => string][] = [
  ["launcher", "launcher", (v) => v.launcher],
  ["launcher parameters", "params", (v) => text(v.params)],
  ["subject", "subject", (v) => text(v.subject)],
  ["TEE", "tee.type", (v) => securityText(v.tee)],
  ["TEE settings", "tee.settings", (v) => text(v.tee.settings)],
  ["CPU", "hardware.cpu_model", (v) => v.hardware.cpu_model],
  ["CPUs", "hardware.cpus", (v) => some(v.hardware.cpus, "")],
  ["microcode", "hardware.microcode", (v) => v.hardware.microcode],
  ["governor", "hardware.governor", (v) => v.hardware.governor],
  ["SMT", "hardware.smt", (v) => v.hardware.smt],
  ["memory", "hardware.memory_bytes", (v) => some(v.hardware.memory_bytes, "bytes")],
  ["kernel", "software.kernel", (v) => v.software.kernel],
  ["kernel command line", "software.cmdline", (v) => v.software.cmdline],
  ["operating system", "software.os", (v) => v.software.os],
  ["hypervisor", "software.hypervisor", (v) => v.software.hypervisor],
  ["clock source", "software.clock_source", (v) => v.software.clock_source],
  ["limits", "software.limits", (v) => text(v.software.limits)],
  ["versions", "software.versions", (v) => text(v.software.versions)],
  ["page cache", "software.page_cache_policy", (v) => v.software.page_cache_policy],
  ["instance", "cloud", (v) => (v.cloud ? [v.cloud.provider, v.cloud.instance_type, v.cloud.zone || v.cloud.region].join(" ").trim() : "")],
  ["fingerprint", "fingerprint", (v) => brief(v.fingerprint)],
];

/** A digest, cut to what a person compares. */
export function brief(digest: string): string {
  const [algorithm, hex] = digest.split(":", 2);
  return hex && hex.length > 12 ? `${algorithm}:${hex.slice(0, 12)}` : digest;
}

export function Environments({ doc }: { doc: Doc }) {
  const envs = doc.environments ?? [];
  const kept = fields.filter(([, path, of]) => envs.some((v) => of(v) !== "" || v.missing?.[path]));
  return (
    <Table name="Environments" columns={["Field", ...envs.map((v) => v.env_id)]}>
      {kept.map(([name, path, of]) => (
        <tr key={name}>
          <th scope="row">{name}</th>
          {envs.map((v) => (
            <td key={v.env_id} className={of(v) === "" ? "missing wrap" : "wrap"} title={name === "fingerprint" ? v.fingerprint : undefined}>
              {of(v) || (v.missing?.[path] ? `missing: ${v.missing[path]}` : "none")}
            </td>
          ))}
        </tr>
      ))}
    </Table>
  );
}

export function Missing({ doc }: { doc: Doc }) {
  const rows = missingOf(doc);
  if (rows.length === 0) return <p className="dim">Nothing.</p>;
  return (
    <Table name="What is missing" columns={["What", "Where", "Why"]}>
      {rows.map((r, i) => (
        <tr key={i}>
          <th scope="row" className="mono field">
            {r.what}
          </th>
          <td>{r.where}</td>
          <td className="wrap">{r.why}</td>
        </tr>
      ))}
    </Table>
  );
}

/** Every run in execution order, including excluded and failed ones. */
export function Runs({ doc }: { doc: Doc }) {
  const metrics = doc.workload.metrics ?? [];
  const envs = (doc.environments ?? []).map((v) => v.env_id);
  return (
    <Table name="Every run" columns={["Run", "Environment", "Case", "#Pair", "Status", "#Wall time", ...metrics.map((d) => `#${metricLabel(doc, d.name)}`), "#Steal", "#CPU of others"]}>
      {inOrder(doc).map((r) => (
        <tr key={r.run_id} data-status={r.status}>
          <th scope="row" className="mono field">
            {r.run_id}
          </th>
          <td>
            <ArmName name={r.env_id} index={envs.indexOf(r.env_id)} />
          </td>
          <td>{r.case}</td>
          <td className="num">{r.pair + 1}</td>
          <td>{r.status === "ok" ? "ok" : `${r.status}: ${r.reason ?? "no reason given"}`}</td>
          <Num v={r.duration_seconds > 0 ? r.duration_seconds : null} unit="seconds" why={r.reason ?? "not timed"} />
          {metrics.map((d) => {
            const m: ResultMetric | undefined = r.metrics?.find((m) => m.name === d.name);
            return <Num key={d.name} v={m?.value} unit={d.unit} why={m?.missing_reason || r.missing?.[d.name] || (r.status === "ok" ? "the run does not report it" : "see status")} />;
          })}
          <Num v={r.interference.steal_ratio} unit="ratio" why={r.interference.missing?.["steal_ratio"]} />
          <td className="num" title={rawMeasure(r.interference.foreign_cpu_ratio, "ratio")}>
            {r.interference.foreign_cpu_ratio === null ? `missing: ${r.interference.missing?.["foreign_cpu_ratio"] ?? "no reason was recorded"}` : formatValue(r.interference.foreign_cpu_ratio, "ratio")}
          </td>
        </tr>
      ))}
    </Table>
  );
}
