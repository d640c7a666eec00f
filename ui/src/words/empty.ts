// Why a chart is empty, and what would change that.
import type { Source } from "../api/types";
import { formatLength } from "../format/time";
import { sourcesOf } from "../state/sources";
import type { Window } from "../state/window";

interface Situation {
  sources: Source[] | null;
  metrics: string[];
  /** The process filter, "" if it does not apply. */
  process: string;
  window: Window;
}

export function emptyReason({ sources, metrics, process, window }: Situation): string {
  const behind = sourcesOf(sources, metrics);
  const working = behind.filter((s) => s.state === "available" || s.state === "degraded");
  // A source that could deliver explains more than one that is impossible on this machine.
  const source = behind.find((s) => s.state !== "not here") ?? behind[0];
  if (source && working.length === 0) {
    switch (source.state) {
      case "off":
        if (source.auto) return `The source ${source.name} is ${source.reason}. It then switches on automatically.`;
        return `The source ${source.name} is ${source.optIn ? "off by default" : "switched off"}. Switch it on under Settings.`;
      case "not here":
        return because(`This machine does not have what the source ${source.name} measures`, { reason: source.reason });
      default:
        return because(`The source ${source.name} is unavailable`, source);
    }
  }
  const unseen = working.find((s) => s.blind);
  if (unseen && working.every((s) => s.blind)) return because(`Counters of ${unseen.name} are unavailable here`, { reason: blindReason(unseen), remedy: unseen.remedy });
  const narrowed = working.find((s) => s.process || s.cgroup || s.container || s.pids?.length);
  if (window.started !== null && window.to < window.started) return "No samples: this window ended before the monitor started.";
  if (process !== "") return `No samples of a process that matches ${process} in ${spanWords(window)}. Try a wider range or another filter.`;
  if (narrowed) return `No samples. The source ${narrowed.name} only counts ${narrowedTo(narrowed)}; see Settings.`;
  if (window.started !== null && window.to - window.started < 60) return "No samples yet. The monitor has just started; the first rates appear after two readings.";
  return `No samples in this window of ${formatLength(window.to - window.from)}.`;
}

/** "the last 5 min", or "these 5 min" of a window that does not end now. */
export function spanWords(w: Pick<Window, "from" | "to" | "live">): string {
  return `${w.live ? "the last" : "these"} ${formatLength(w.to - w.from)}`;
}

/** "processes matching redis, in containers matching web". */
export function narrowedTo(s: Source): string {
  const parts = [
    s.process ? `processes matching ${s.process}` : "processes",
    s.pids?.length ? `with the process ids ${s.pids.join(", ")}` : "",
    s.cgroup ? `in control groups matching ${s.cgroup}` : "",
    s.container ? `in containers matching ${s.container}` : "",
  ];
  return parts.filter(Boolean).join(", ").replace("processes, ", "processes ");
}

/** "X is unavailable: why. Fix: how." Reasons and remedies are shown
 * unchanged, because either may begin with a path or a command. */
export function because(what: string, s: { reason?: string | undefined; remedy?: string | undefined }): string {
  return `${what}${s.reason ? `: ${s.reason}` : ""}.${s.remedy ? ` Fix: ${s.remedy}` : ""}`;
}

/** Error texts start lower case and have no full stop; on the page they are
 * sentences. The name of a metric or file stays unchanged. */
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
  return s.blind && s.reason === "budget" ? "the budget does not allow counting these events" : s.reason;
}
