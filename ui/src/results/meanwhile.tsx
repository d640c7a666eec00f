// The runs of a result over time, and what the monitor saw in the same window.
import { queryRange } from "../api/client";
import { useResource } from "../api/resource";
import type { ResultExperiment } from "../api/types";
import { TopChart } from "../charts/charts";
import { keyOf } from "../charts/data";
import { useSeen } from "../charts/panel";
import { formatValue } from "../format/number";
import { formatLength, formatSince } from "../format/time";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { counters, own, processFilter, select } from "../query/promql";
import { align } from "../query/series";
import { useMachine, WindowProvider } from "../state/machine";
import { goTo } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { gridOf } from "../state/window";
import { armsOf, elsewhere, windowOfRuns } from "./document";
import { Timeline } from "./timeline";

export function Meanwhile({ doc }: { doc: ResultExperiment }) {
  const { fixed } = usePlace();
  const { tick } = useMachine();
  const whole = windowOfRuns(doc, tick);
  // A window that was dragged within the runs is a zoom; any other is of other pages.
  const zoomed = fixed !== null && fixed.from < whole.to && fixed.to > whole.from;
  const w = zoomed ? fixed : whole;
  return (
    <section className="card" aria-labelledby="over-time">
      <div className="section-head">
        <h2 id="over-time">Runs over time</h2>
        <p>
          {formatSince(new Date(w.from * 1000).toISOString())}, {formatLength(w.to - w.from)}. What this machine's monitor saw during that time is below, on the same axis.
        </p>
        {zoomed && (
          <button type="button" className="text-button" onClick={() => move({ fixed: null })}>
            Show all runs
          </button>
        )}
      </div>
      <WindowProvider from={w.from} to={w.to}>
        <Timeline doc={doc} from={w.from} to={w.to} />
        <Monitor doc={doc} />
      </WindowProvider>
    </section>
  );
}

function Monitor({ doc }: { doc: ResultExperiment }) {
  const place = usePlace();
  const { process } = place;
  const arms = armsOf(doc);
  const { window: w, platform } = useMachine();
  const [ref, seen] = useSeen();
  // For which part of the window there are readings at all.
  const watched = useResource(seen ? `watched ${w.instance} ${keyOf(w)}` : null, async (signal) => {
    const grid = gridOf(w);
    const { rows } = await queryRange(`max(max_over_time(${select("teescope_source_up", own(w))}[${Math.ceil(Math.max(w.step, 3 * w.interval))}s]))`, w, signal);
    return rows.flatMap((r) => align(grid, r)).filter((v) => v !== null).length / grid.length;
  });
  const share = watched.data;
  const other = elsewhere(doc.environments?.[0], platform.data);
  const filter = processFilter(process);
  return (
    <div ref={ref} className="card-list" data-watched={share ?? ""}>
      {watched.error && <Problem message={watched.error} retry={watched.retry} />}
      {share === 0 && (
        <p className="empty">
          The monitor was not running in this window, or has dropped its data since. The counters of the runs are under “Why”.
        </p>
      )}
      {share !== null && share > 0 && (
        <>
          {share < 0.9 && <p className="note note-warn">The monitor ran for {formatValue(share, "ratio")} of this window; the charts have gaps elsewhere.</p>}
          {other !== "" && <p className="note note-warn">{other}</p>}
          {arms && (
            <p>
              <PlaceLink to={{ ...goTo(place, "explain"), ...arms }}>Explain a process in both arms, side by side</PlaceLink>: the last successful pair of runs.
            </p>
          )}
          {process !== "" && <p className="note">Only processes matching {process}, the filter above.</p>}
          <TopChart title="System calls per second" unit="1/s" counter={counters.syscalls} by="process" matches={filter} height={130} />
          <TopChart title="Context switches per second" unit="1/s" counter={counters.switches} by="process" matches={filter} height={130} />
          <TopChart title="Page faults per second" unit="1/s" counter={counters.faults} by="process" matches={filter} height={130} />
          <TopChart title="CPU, percent of one core" unit="ratio" counter={counters.cpu} by="process" matches={filter} height={130} />
        </>
      )}
    </div>
  );
}
