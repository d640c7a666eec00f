// The runs of a result over time, and the monitor's data of the same window.
import { useResource } from "../api/resource";
import type { ResultExperiment } from "../api/types";
import { TopChart } from "../charts/charts";
import { keyOf } from "../charts/data";
import { useSeen } from "../charts/panel";
import { formatValue } from "../format/number";
import { formatLength, formatSince } from "../format/time";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { counters, processFilter } from "../query/promql";
import { readings } from "../query/watched";
import { useMachine, WindowProvider } from "../state/machine";
import { goTo, shortest } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { armsOf, elsewhere, windowOfRuns } from "./document";
import { Timeline } from "./timeline";

export function Meanwhile({ doc }: { doc: ResultExperiment }) {
  const { fixed } = usePlace();
  const { tick } = useMachine();
  const whole = windowOfRuns(doc, tick);
  // A window dragged within the runs is a zoom; any other belongs to other pages.
  const zoomed = fixed !== null && fixed.from < whole.to && fixed.to > whole.from;
  const w = zoomed ? fixed : whole;
  return (
    <section className="card" aria-labelledby="over-time">
      <div className="section-head">
        <h2 id="over-time">Runs over time</h2>
        <p>
          {formatSince(new Date(w.from * 1000).toISOString())}, {formatLength(w.to - w.from)}. The charts below show what this machine's monitor measured during that time, on the same axis.
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
  const brief = arms !== null && [arms.before, arms.fixed].some((s) => s.to - s.from < shortest);
  const { window: w, platform } = useMachine();
  const [ref, seen] = useSeen();
  // The part of the window that has readings.
  const watched = useResource(seen ? `watched ${w.instance} ${keyOf(w)}` : null, async () => {
    const all = await readings(w);
    return all.filter((v) => v !== null).length / all.length;
  });
  const share = watched.data;
  const other = elsewhere(doc.environments?.[0], platform.data);
  const filter = processFilter(process);
  return (
    <div ref={ref} className="card-list" data-watched={share ?? ""}>
      {watched.error && <Problem message={watched.error} retry={watched.retry} />}
      {share === 0 && (
        <p className="empty">
          The monitor did not run in this window, or has deleted the data since. The counters of the runs are under “Why”.
        </p>
      )}
      {share !== null && share > 0 && (
        <>
          {share < 0.9 && <p className="note note-warn">The monitor ran for {formatValue(share, "ratio")} of this window; the charts have gaps for the rest.</p>}
          {other !== "" && <p className="note note-warn">{other}</p>}
          {arms && brief && <p className="note">The runs are shorter than {shortest} s, which is too short to compare what a process did in both arms.</p>}
          {arms && !brief && (
            <p>
              <PlaceLink to={{ ...goTo(place, "processes"), ...arms }}>Choose a process to see it in both environments, side by side</PlaceLink>: the last successful pair of runs.
            </p>
          )}
          {process !== "" && <p className="note">Only processes matching {process}, the filter above.</p>}
          <TopChart title="System calls per second" unit="1/s" counter={counters.syscalls} by="process" matches={filter} height={140} />
          <TopChart title="Context switches per second" unit="1/s" counter={counters.switches} by="process" matches={filter} height={140} />
          <TopChart title="Page faults per second" unit="1/s" counter={counters.faults} by="process" matches={filter} height={140} />
          <TopChart title="CPU, percent of one core" unit="ratio" counter={counters.cpu} by="process" matches={filter} height={140} />
        </>
      )}
    </div>
  );
}
