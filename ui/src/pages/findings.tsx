// Findings: open ones, past ones, and the answer of every check.
import type { FindingsRecord } from "../api/types";
import "../findings/findings.css";
import { useHistory, useLinked } from "../findings/linked";
import { FindingList } from "../findings/list";
import { Rules } from "../findings/rules";
import { SilenceList, useSilences } from "../findings/silences";
import { Timeline } from "../findings/timeline";
import { formatSince } from "../format/time";
import { Problem } from "../frame/problem";
import { tabOf, Tabs } from "../frame/tabs";
import { useMachine } from "../state/machine";
import { usePlace } from "../state/use-place";
import { count, openFindings } from "../words/verdict";

/** More closed findings than this are not listed. */
const most = 100;

export default function FindingsPage() {
  const place = usePlace();
  const { findings, window: w } = useMachine();
  const silences = useSilences();
  const f = findings.data;
  const history = useHistory();
  const latest = f?.findings ?? [];
  // The window's past findings, in addition to those that are open or closed recently.
  const near = [...latest, ...(history.data ?? []).filter((r) => !latest.some((l) => l.id === r.id))];
  const linked = useLinked(place.subject, f === null || near.some((r) => r.id === place.subject));
  const all = [...near, ...(linked.data ?? []).filter((r) => r.id === place.subject && !near.some((n) => n.id === r.id))];
  const open = openFindings(f);
  const problems = f?.problems?.filter((p) => !p.ended).length ?? 0;
  const closed = all.filter((r) => r.state === "closed");
  const listed = closed.filter((r, i) => i < most || r.id === place.subject);
  const rules = f?.rules ?? [];
  const titles = new Map(rules.map((r) => [r.name, r.title]));
  const tabs = { open: `Open ${f ? open.length : ""}`, history: "History", checks: "Checks" };
  // A link to a closed finding leads to the tab that lists it.
  const tab = place.tab === "" && closed.some((r) => r.id === place.subject) ? "history" : tabOf(tabs, place);
  const shared = { rules, silences: silences.data ?? [] };
  const lost = place.subject !== "" && linked.data?.length === 0 && !linked.loading && !all.some((r: FindingsRecord) => r.id === place.subject);
  return (
    <>
      <div className="section-head">
        <h2>{f ? (open.length === 0 ? "No open findings" : `${count(problems, "problem")}, ${count(open.length, "open finding")}`) : "Findings"}</h2>
        {f && <p>{`${f.summary.checks}. Last run at ${formatSince(f.at)}.`}</p>}
      </div>
      <Tabs label="Findings" tabs={tabs} current={tab} also={{ subject: "" }} />
      {findings.error && <Problem message={findings.error} retry={findings.retry} stale={f !== null} />}
      {history.error && <Problem message={history.error} retry={history.retry} stale={history.data !== null} />}
      {linked.error && <Problem message={linked.error} retry={linked.retry} />}
      {lost && <p className="note">The finding of this link is no longer on record.</p>}
      {tab === "open" && (open.length > 0 ? <FindingList label="Open findings" findings={open} {...shared} /> : f && <p className="empty">No open findings. The tab Checks lists what is checked.</p>)}
      {tab === "history" && (
        <>
          {w.instance !== "" && all.length > 0 && <Timeline findings={all} titles={titles} />}
          {closed.length === 0 ? <p className="empty">No closed findings on record.</p> : <FindingList label="Closed findings" findings={listed} {...shared} />}
          {closed.length > listed.length && <p className="note">{closed.length - listed.length} older findings are not listed.</p>}
        </>
      )}
      {tab === "checks" && (
        <>
          <SilenceList silences={silences} titles={titles} />
          <Rules rules={rules} open={open} />
        </>
      )}
    </>
  );
}
