// Findings as a list next to the details of the selected one.
import type { FindingsRecord, FindingsRuleStat, FindingsSilence } from "../api/types";
import { formatSince } from "../format/time";
import { Severity } from "../frame/level";
import { PlaceLink } from "../frame/link";
import { useMachine } from "../state/machine";
import { useProcesses } from "../state/processes";
import { usePlace } from "../state/use-place";
import { subjectOf } from "../words/problem";
import { FindingDetail } from "./detail";
import { lengthOf } from "./timeline";

interface Props {
  label: string;
  findings: FindingsRecord[];
  rules: FindingsRuleStat[];
  silences: FindingsSilence[];
}

export function FindingList({ label, findings, rules, silences }: Props) {
  const { subject } = usePlace();
  const { tick } = useMachine();
  const processes = useProcesses(findings.length > 0);
  const chosen = findings.find((f) => f.id === subject) ?? findings[0];
  const rule = rules.find((r) => r.name === chosen?.rule);
  if (!chosen) return null;
  return (
    <div className="list-detail">
      <ul className="finding-list card" aria-label={label}>
        {findings.map((f) => (
          <li key={f.id} data-listed={f.rule}>
            <PlaceLink to={{ subject: f.id }} current={f === chosen}>
              <span className="row">
                <Severity level={f.severity} />
                <span className="dim small">
                  {formatSince(f.since)}, for {lengthOf(f, tick)}
                </span>
              </span>
              <span>{f.sentence ?? f.title}</span>
            </PlaceLink>
          </li>
        ))}
      </ul>
      <FindingDetail key={chosen.id} finding={chosen} title={rule?.title ?? chosen.rule} doc={rule?.doc} silences={silences} explainable={processes.has(subjectOf(chosen))} />
    </div>
  );
}
