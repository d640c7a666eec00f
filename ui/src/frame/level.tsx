// Severity by shape and word, and colour on top of these.
import type { FindingsSeverity } from "../api/types";
import type { Verdict } from "../words/verdict";
import { IconCritical, IconGood, IconInfo, IconUnknown, IconWarning } from "./icons";

export const levelIcons = { good: IconGood, info: IconInfo, warning: IconWarning, critical: IconCritical, unknown: IconUnknown } satisfies Record<Verdict["level"], unknown>;

const words: Record<FindingsSeverity, string> = { info: "note", warning: "warning", critical: "critical" };

export function Severity({ level }: { level: FindingsSeverity }) {
  const Icon = levelIcons[level] ?? IconInfo;
  return (
    <span className={`severity severity-${level}`}>
      <Icon /> {words[level] ?? level}
    </span>
  );
}
