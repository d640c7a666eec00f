// Why a chart has nothing to draw, and what would change it.
import type { Source } from "../api/types";
import { formatLength } from "../format/time";
import { sourcesOf } from "../state/sources";
import type { Window } from "../state/window";

interface Situation {
  sources: Source[] | null;
  metrics: string[];
  /** The process filter, "" where it does not apply. */
  process: string;
  window: Window;
}

export function emptyReason({ sources, metrics, process, window }: Situation): string {
  const behind = sourcesOf(sources, metrics);
  const working = behind.filter((s) => s.state === "available" || s.state === "degraded");
  const source = behind[0];
  if (source && working.length === 0) {
    switch (source.state) {
      case "off":
        return `The source ${source.name} is switched off. It can be switched on under Overhead.`;
      case "not here":
        return because("This machine does not have this", { reason: source.reason });
      default:
        return because(`The source ${source.name} is unavailable`, source);
    }
  }
  const narrowed = working.find((s) => s.process);
  if (window.started !== null && window.to < window.started) return "No samples in this window, which ended before the monitor started.";
  if (process !== "") return `No process that matches ${process} did this in the last ${formatLength(window.to - window.from)}. A wider range or another filter may show more.`;
  if (narrowed) return `No samples. The source ${narrowed.name} only keeps processes that match ${narrowed.process}; that is set under Overhead.`;
  if (window.started !== null && window.to - window.started < 60) return "No samples yet. The monitor has just started; the first rates appear after two readings.";
  return `No samples in this window of ${formatLength(window.to - window.from)}.`;
}

/** "X is unavailable: why. What helps: how." Reasons and remedies are shown as
 * they are, since either may begin with a path or a command. */
export function because(what: string, s: { reason?: string | undefined; remedy?: string | undefined }): string {
  return `${what}${s.reason ? `: ${s.reason}` : ""}.${s.remedy ? ` What helps: ${s.remedy}` : ""}`;
}

/** Error texts start lower case and have no full stop; on the page they are sentences. */
export function sentence(s: string): string {
  const t = s.trim();
  if (t === "") return "";
  return t[0]!.toUpperCase() + t.slice(1) + (/[.?]$/.test(t) ? "" : ".");
}
