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
  // Of several, one that could deliver says more than one that this machine cannot have.
  const source = behind.find((s) => s.state !== "not here") ?? behind[0];
  if (source && working.length === 0) {
    switch (source.state) {
      case "off":
        return `The source ${source.name} is ${source.optIn ? "off until it is asked for" : "switched off"}. It can be switched on under Overhead.`;
      case "not here":
        return because("This machine does not have this", { reason: source.reason });
      default:
        return because(`The source ${source.name} is unavailable`, source);
    }
  }
  const unseen = working.find((s) => s.blind);
  if (unseen && working.every((s) => s.blind)) return because(`The source ${unseen.name} is blind here`, { reason: blindReason(unseen), remedy: unseen.remedy });
  const narrowed = working.find((s) => s.process || s.cgroup || s.container || s.pids?.length);
  if (window.started !== null && window.to < window.started) return "No samples in this window, which ended before the monitor started.";
  if (process !== "") return `No process that matches ${process} did this in the last ${formatLength(window.to - window.from)}. A wider range or another filter may show more.`;
  if (narrowed) return `No samples. The source ${narrowed.name} only counts ${narrowedTo(narrowed)}; that is set under Overhead.`;
  if (window.started !== null && window.to - window.started < 60) return "No samples yet. The monitor has just started; the first rates appear after two readings.";
  return `No samples in this window of ${formatLength(window.to - window.from)}.`;
}

/** "processes that match redis, in containers that match web". */
export function narrowedTo(s: Source): string {
  const parts = [
    s.process ? `processes that match ${s.process}` : "processes",
    s.pids?.length ? `with the process ids ${s.pids.join(", ")}` : "",
    s.cgroup ? `in control groups that match ${s.cgroup}` : "",
    s.container ? `in containers that match ${s.container}` : "",
  ];
  return parts.filter(Boolean).join(", ").replace("processes, ", "processes ");
}

/** "X is unavailable: why. What helps: how." Reasons and remedies are shown as
 * they are, since either may begin with a path or a command. */
export function because(what: string, s: { reason?: string | undefined; remedy?: string | undefined }): string {
  return `${what}${s.reason ? `: ${s.reason}` : ""}.${s.remedy ? ` What helps: ${s.remedy}` : ""}`;
}

/** Error texts start lower case and have no full stop; on the page they are
 * sentences. The name of a metric or file stays as it is. */
export function sentence(s: string): string {
  const t = s.trim();
  if (t === "") return "";
  const name = /^\S*[_/]/.test(t);
  return (name ? t : t[0]!.toUpperCase() + t.slice(1)) + (/[.?]$/.test(t) ? "" : ".");
}

/** A text cut after its first sentence, which ends before a capital letter: the
 * point of "1.5" or "e.g. this" ends none. */
export function firstSentence(text: string): { first: string; rest: string } {
  const end = /[.?](?=\s+[A-Z])/.exec(text);
  if (!end) return { first: text, rest: "" };
  return { first: text.slice(0, end.index + 1), rest: text.slice(end.index + 1).trim() };
}

/** The reason of a source; "budget", which is a label's value, in words. */
export function blindReason(s: Source): string | undefined {
  return s.blind && s.reason === "budget" ? "the budget has no room for counting these events" : s.reason;
}
