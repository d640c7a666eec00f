// The workloads of a TEE with the picture of their time: processes with enclaves or, in a
// confidential guest, those that use the CPU most.
import { asking, getDocument, queryAt } from "../api/client";
import { useResource } from "../api/resource";
import type { Explanation } from "../api/types";
import { keyOf } from "../charts/data";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { counters, increaseBy, own, processFilter, select } from "../query/promql";
import { rank } from "../query/series";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { steady } from "../state/window";
import { Picture } from "./picture";
import "./explain.css";

/** The largest number of workloads shown: each is a query over the whole window. */
const most = 4;

export function Workloads({ guest }: { guest: boolean }) {
  const { process } = usePlace();
  const { window } = useMachine();
  const w = { ...window, ...steady(window) };
  const filter = processFilter(process);
  const enclaves = `count by (process) (last_over_time({__name__=~"tee_sgx_process_enclaves|tee_sgx_enclave_entries_total|tee_sgx_process_enclave_faults_total",${select("", [...own(w), ...filter]).slice(1, -1)}}[${Math.max(60, Math.round(w.to - w.from))}s]))`;
  const expr = guest ? increaseBy(counters.cpu, "process", filter, w) : enclaves;
  const found = useResource(w.instance === "" ? null : `${expr} ${keyOf(w)}`, async () => rank((await queryAt(expr, w.to)).rows, "process").map((r) => r.name).filter((n) => n !== "other" && n !== "ended"));
  const names = (found.data ?? []).slice(0, most);
  if (found.error) return <Problem message={found.error} retry={found.retry} stale={found.data !== null} />;
  if (names.length === 0) return found.data && process !== "" ? <p className="empty">No workload of the TEE matches {process}, the process filter.</p> : null;
  return (
    <section className="card" aria-labelledby="workloads">
      <div className="section-head">
        <h2 id="workloads">{guest ? "Where the time goes in this guest" : "Where the time of enclaves goes"}</h2>
        {(found.data ?? []).length > most && <p>{`${most} of ${(found.data ?? []).length} processes; the page Processes has the others.`}</p>}
      </div>
      {names.map((name) => (
        <Workload key={name} name={name} />
      ))}
    </section>
  );
}

function Workload({ name }: { name: string }) {
  const place = usePlace();
  const { window: w } = useMachine();
  const { from, to } = steady(w);
  const call = asking("explain", { process: name, job: w.job, instance: w.instance, from, to, per: "" });
  const { data, error } = useResource<Explanation>(call, (s) => getDocument(call, s));
  const tree = data?.tree.subject === name ? data.tree : null;
  return (
    <div data-workload={name}>
      <h3>
        <PlaceLink to={goTo(place, "processes", name)}>{name}</PlaceLink>
      </h3>
      {error && !tree && <p className="dim small">{error}</p>}
      {tree && <p>{tree.tee?.title ?? `No time of ${name} is known to be spent on the TEE.`}</p>}
      {tree && <Picture trees={[{ tree }]} />}
    </div>
  );
}
