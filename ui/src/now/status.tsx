// The monitor's own state, in a line.
import { formatValue } from "../format/number";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { sentence } from "../words/empty";
import { isOwn } from "../words/problem";
import { costOf, openFindings } from "../words/verdict";

export function StatusLine() {
  const place = usePlace();
  const { overhead, findings, platform } = useMachine();
  const o = overhead.data;
  const cost = costOf(o);
  const about = openFindings(findings.data).filter((f) => isOwn(f) && f.severity !== "info");
  return (
    <footer className="footer status-line">
      <p>
        <PlaceLink to={goTo(place, "settings")}>teescope</PlaceLink>
        {cost !== null && `: ${formatValue(cost, "ratio")} of one core`}
        {o?.rssBytes && `, ${formatValue(o.rssBytes, "bytes")} of memory`}
        {o && !platform.data?.elsewhere && `, ${o.series ? `${formatValue(o.series, "")} series` : "no reading stored yet"}`}
        .
        {about.map((f) => (
          <span key={f.id}>
            {" "}
            <PlaceLink to={{ problem: f.id }}>{f.sentence ?? f.title}</PlaceLink>
          </span>
        ))}
      </p>
      {o?.storeError && <Problem message={sentence(o.storeError)} retry={overhead.retry} />}
    </footer>
  );
}
