// The machine that runs the processes.
import { LinesChart, QueryChart } from "../charts/charts";
import { diskBusy, fileSystems, node } from "../charts/node";
import { formatValue } from "../format/number";
import { formatLength, formatSince } from "../format/time";
import { own, rateWindow, select } from "../query/promql";
import { useMachine } from "../state/machine";
import { Sentence } from "../words/term";
import { count } from "../words/verdict";

export default function MachinePage() {
  const { window: w, platform, tick } = useMachine();
  const p = platform.data;
  return (
    <>
      <div className="section-head">
        <h2>Machine</h2>
      </div>
      {p && (
        <section className="card" aria-label="The machine">
          <dl className="facts">
            <dt>Machine</dt>
            <dd>{p.hostname}</dd>
            <dt>System</dt>
            <dd>{[p.os, p.kernel, p.arch].filter(Boolean).join(", ") || "unknown"}</dd>
            <dt>Processor</dt>
            <dd>{[p.cpuModel, p.cpus > 0 && count(p.cpus, "CPU")].filter(Boolean).join(", ") || "unknown"}</dd>
            <dt>Memory</dt>
            <dd title={p.memoryBytes > 0 ? `${p.memoryBytes} bytes` : undefined}>{p.memoryBytes > 0 ? formatValue(p.memoryBytes, "bytes") : "unknown"}</dd>
            {p.lockdown && (
              <>
                <dt>
                  <Sentence text="Lockdown" />
                </dt>
                <dd>{p.lockdown}</dd>
              </>
            )}
            <dt>{p.elsewhere ? "Agent" : "Monitor"}</dt>
            <dd>
              {p.version || "version unknown"}{p.started && `, started ${formatSince(p.started)} (${formatLength(tick - Date.parse(p.started) / 1000)} ago)`}{p.privileged || !p.version ? "" : ", without root: some sources are missing"}
            </dd>
          </dl>
        </section>
      )}
      <div className="grid">
        {[node.cpu(w), node.pressure(w), node.memory(w), node.load(w), node.kernel(w), node.paging(w), node.disk(w), node.network(w)].map((c) => (
          <LinesChart key={c.title} {...c} />
        ))}
        <QueryChart title="Page cache, pages per second, all processes" unit="1/s" by="operation" metrics={["tee_page_cache_pages_total"]} expr={`sum by (operation) (rate(${select("tee_page_cache_pages_total", own(w))}[${rateWindow(w)}]))`} />
        <QueryChart title="Disks, share of time busy" unit="ratio" by="device" metrics={["node_disk_io_time_seconds_total"]} expr={diskBusy(w)} />
        <QueryChart title="File systems, share in use" unit="ratio" by="mountpoint" metrics={["node_filesystem_avail_bytes"]} expr={fileSystems(w)} />
      </div>
    </>
  );
}
