// All sources: their states and settings.
import { Switch } from "@mantine/core";
import "@mantine/core/styles/Switch.css";
import type { ReactNode } from "react";
import type { Source } from "../api/types";
import type { Resource } from "../api/resource";
import { formatValue, rawValue } from "../format/number";
import { Locked, useAuthority } from "../frame/locked";
import { IconGood, IconInfo, IconUnknown, IconWarning } from "../frame/icons";
import { Problem } from "../frame/problem";
import { blindReason, narrowedTo, sentence } from "../words/empty";
import { errorOf, halfInterval, roughly } from "../words/remarks";
import { canNarrow, canSample, parsePercent, parsePIDs, stateWords } from "../words/source";
import { Sentence } from "../words/term";
import { count } from "../words/verdict";
import { ChoiceSetting, TextSetting, useSetting } from "./setting";
import "./sources.css";

/** elsewhere: the sources are those of another machine, which only its own agent can set. */
export function SourceList({ sources, changed, elsewhere }: { sources: Resource<Source[]>; changed: () => void; elsewhere: boolean }) {
  const authority = useAuthority();
  const readOnly = elsewhere || !authority?.may;
  const all = sources.data ?? [];
  const here = all.filter((s) => s.state !== "not here");
  const absent = all.filter((s) => s.state === "not here");
  return (
    <section className="card" aria-labelledby="sources">
      <div className="section-head">
        <h2 id="sources">Sources</h2>
        <p>{elsewhere ? "These sources belong to another machine. Change them at that machine's agent." : "A source that is off has no cost and records nothing. Settings made here last until the monitor restarts or reloads its configuration."}</p>
      </div>
      {!elsewhere && <Locked authority={authority} />}
      {sources.error && <Problem message={sources.error} retry={sources.retry} stale={sources.data !== null} />}
      {/* The roles are said because the rows of a phone are no table's. */}
      <table className="data sources" role="table" aria-labelledby="sources">
        <thead role="rowgroup">
          <tr role="row">
            {["On", "Source", "State", "Counts", "Level"].map((h) => (
              <th key={h} role="columnheader" scope="col">
                {h}
              </th>
            ))}
          </tr>
        </thead>
        {here.map((s) => (
          <SourceItem key={s.name} source={s} changed={changed} readOnly={readOnly} />
        ))}
      </table>
      {absent.length > 0 && (
        <details>
          <summary>{count(absent.length, "source")} for hardware or software that is not here</summary>
          <dl className="facts absent">
            {absent.map((s) => (
              <div key={s.name} style={{ display: "contents" }} data-source={s.name} data-state={s.state}>
                <dt className="mono">{s.name}</dt>
                <dd>{sentence(s.reason ?? "no reason given")}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </section>
  );
}

const looks: Record<string, { look: string; icon: () => ReactNode }> = {
  available: { look: "chip-good", icon: IconGood },
  degraded: { look: "chip-warn", icon: IconWarning },
  unavailable: { look: "chip-bad", icon: IconWarning },
  off: { look: "", icon: IconInfo },
};

function SourceItem({ source: s, changed, readOnly }: { source: Source; changed: () => void; readOnly: boolean }) {
  const { error, busy, send } = useSetting(s, changed);
  const { look, icon: Icon } = looks[s.state] ?? { look: "", icon: IconUnknown };
  const on = s.state !== "off";
  const stated = errorOf(s);
  const reads = s.state === "available" || s.state === "degraded";
  return (
    <tbody role="rowgroup" className="source" data-source={s.name} data-state={s.state} aria-label={s.name}>
      <tr role="row" className="source-head">
        <td role="cell">
          <Switch checked={on} disabled={readOnly} aria-busy={busy} onChange={(e) => void send(() => ({ on: e.currentTarget.checked }))} aria-label={`Source ${s.name}`} aria-describedby={`doc-${s.name}`} size="sm" />
        </td>
        <th role="rowheader" scope="row">
          <span className="mono">{s.name}</span>
          <span className="block dim small" id={`doc-${s.name}`}>
            <Sentence text={s.doc} />
          </span>
        </th>
        <td role="cell">
          <span className={`chip ${look}`}>
            <Icon /> {stateWords(s)}
          </span>
        </td>
        <td role="cell">
          {reads && s.coverage !== undefined && (s.estimated || canSample(s)) && (
            <span className={`chip ${s.estimated ? "chip-warn" : ""}`} title={rawValue(s.coverage, "ratio")} data-coverage={s.coverage}>
              counts {roughly(s.coverage)}
              {stated !== undefined && ` ± ${roughly(halfInterval(stated))}`}
            </span>
          )}
        </td>
        <td role="cell">
          {s.level !== undefined && on && (
            <span className={`chip ${s.level === s.wanted ? "" : "chip-warn"}`} data-level={s.level}>
              level {s.level}
              {s.wanted !== undefined && s.level !== s.wanted && `, ${s.wanted} requested`}
            </span>
          )}
        </td>
      </tr>
      <tr role="row" className="source-body">
        <td role="cell" colSpan={5}>
          {error && <p className="setting-error" role="alert">{error}</p>}
          {s.auto && <p className="small">{on ? `On automatically: ${s.seen ?? s.waits}.` : `${sentence(s.reason ?? "")} It then switches on automatically.`}</p>}
          {s.waits && !s.auto && !readOnly && (
            <p className="small">
              <button type="button" className="text-button" aria-busy={busy} onClick={() => void send(() => ({ auto: true }))}>
                Switch {s.name} automatically
              </button>{" "}
              <span className="dim">On while {s.waits}, off otherwise.</span>
            </p>
          )}
          {on && s.reason && (
            <p className="small">
              {sentence(blindReason(s) ?? "")}
              {s.remedy && <span className="dim"> Fix: {s.remedy}</span>}
            </p>
          )}
          {narrowed(s) && <p className="small" data-narrowed="">Only {narrowedTo(s)}.</p>}
          <details className="source-more">
            <summary>
              {settable(s) && !readOnly ? "Settings and details" : "Details"}
              <span className="hidden"> of {s.name}</span>
            </summary>
            {settable(s) && !readOnly && <Settings source={s} changed={changed} />}
            <Details source={s} reads={reads} />
          </details>
        </td>
      </tr>
    </tbody>
  );
}

function narrowed(s: Source): boolean {
  return Boolean(s.process || s.cgroup || s.container || s.pids?.length);
}

function settable(s: Source): boolean {
  return canNarrow(s) || canSample(s) || (s.levels?.length ?? 0) > 0;
}

function Settings({ source: s, changed }: { source: Source; changed: () => void }) {
  const common = { source: s, changed };
  const levels = s.levels ?? [];
  return (
    <div className="settings">
      {levels.length > 0 && (
        <ChoiceSetting
          {...common}
          label={`Level of detail of ${s.name}`}
          value={s.wanted ?? s.level ?? ""}
          choices={levels.map((l) => l.name)}
          setting={(level) => ({ level })}
          hint={
            <>
              {s.level !== s.wanted && <strong>Runs at {s.level}: the budget does not allow {s.wanted}. </strong>}
              {levels.map((l) => (
                <span key={l.name} className="level-doc">
                  <b>{l.name}</b>: {l.doc}.{" "}
                </span>
              ))}
            </>
          }
        />
      )}
      {canSample(s) && (
        <TextSetting
          {...common}
          label={`Sampling of ${s.name}, percent of the time`}
          value={s.sample === undefined ? "" : String(Number((s.sample * 100).toPrecision(6)))}
          placeholder="100"
          setting={(text) => ({ sample: text.trim() === "" ? 1 : parsePercent(text) })}
          hint="Count at most during this share of the time, in random windows; counters are scaled up. The budget may lower the share."
        />
      )}
      {canNarrow(s) && (
        <>
          <TextSetting {...common} label={`Process filter of ${s.name}`} value={s.process ?? ""} placeholder="all processes" setting={(process) => ({ process })} hint="Only processes whose name matches this regular expression anywhere." />
          <TextSetting {...common} label={`Process ids of ${s.name}`} value={(s.pids ?? []).join(", ")} placeholder="all" setting={(text) => ({ pids: parsePIDs(text) })} hint="Only these process ids, such as 812, 4711. Each process id also gets its own series." />
          <TextSetting {...common} label={`Control groups of ${s.name}`} value={s.cgroup ?? ""} placeholder="all" setting={(cgroup) => ({ cgroup })} hint="Only processes in control groups whose path matches this regular expression." />
          <TextSetting {...common} label={`Containers of ${s.name}`} value={s.container ?? ""} placeholder="all" setting={(container) => ({ container })} hint="Only processes in containers whose name or id matches this regular expression." />
        </>
      )}
    </div>
  );
}

function Details({ source: s, reads }: { source: Source; reads: boolean }) {
  return (
    <dl className="facts">
      {reads && (
        <>
          <dt>
            <Sentence text="Coverage" />
          </dt>
          <dd>
            {s.coverage === undefined ? "Unknown." : `${formatValue(s.coverage, "ratio")} of the events`}
            {s.error !== undefined && `; standard error of the scaled sum ${roughly(s.error)}`}
            {s.restError !== undefined && `; of the events without an exact kernel count ${roughly(s.restError)}`}
          </dd>
          <dt>Missed</dt>
          <dd title={rawValue(s.missed, "")}>{s.missed === undefined ? "Unknown." : `${formatValue(s.missed, "")} events seen but not counted`}</dd>
          <dt>
            <Sentence text="Folded" />
          </dt>
          <dd title={rawValue(s.folded, "")}>{s.folded === undefined ? "Unknown." : `${formatValue(s.folded, "")} events under the name other`}</dd>
          <dt>Series</dt>
          <dd title={rawValue(s.series, "")}>{formatValue(s.series, "")}</dd>
        </>
      )}
      <dt>Cannot see</dt>
      <dd>
        {s.blind && <p>{sentence(blindReason(s) ?? "any event")}</p>}
        {s.cannotSee ? <Sentence text={s.cannotSee} /> : !s.blind && "No known blind spots."}
      </dd>
      {s.configure && (
        <>
          <dt>{s.configure.what}</dt>
          <dd data-configure={s.name}>
            <p className="mono">{(s.files ?? []).join(", ") || "none"}</p>
            <p>{s.configure.advice}</p>
            <pre className="mono" tabIndex={0} aria-label={`Configuration of ${s.name}`}>
              {s.configure.lines}
            </pre>
          </dd>
        </>
      )}
      {s.cost && (
        <>
          <dt>Costs</dt>
          <dd>{s.cost}</dd>
        </>
      )}
      {s.kernels && (
        <>
          <dt>Kernels</dt>
          <dd>{s.kernels}</dd>
        </>
      )}
      <dt>Needs</dt>
      <dd>
        {(s.needs ?? []).length === 0
          ? "Nothing beyond reading public files."
          : (s.needs ?? []).map((n) => (
              <div key={n.capability + n.for}>
                <code>{n.capability}</code>
                {n.optional && <span className="dim"> (optional)</span>}: {n.for}
              </div>
            ))}
      </dd>
      <dt>Metrics</dt>
      <dd className="mono">{(s.metrics ?? []).join(", ") || "none"}</dd>
    </dl>
  );
}
