// A source's state and settings in words, and the parsing of typed settings.
import type { Source } from "../api/types";

/** The source can be narrowed to some processes. */
export function canNarrow(s: Source): boolean {
  return s.narrows ?? false;
}

/** The source counts events in the kernel and can do so part of the time. */
export function canSample(s: Source): boolean {
  return (s.sample ?? 0) > 0 && s.state !== "off";
}

/** The state in a word or two. An opt-in source, or one that waits, was not switched off by anybody. */
export function stateWords(s: Source): string {
  if (s.state === "off" && s.auto) return "off until needed";
  if (s.state === "off") return s.optIn ? "off by default" : "switched off";
  if (s.blind) return "unavailable here";
  return s.state;
}

/** Process ids, separated by commas or spaces; an Error names an invalid one. */
export function parsePIDs(text: string): number[] {
  return text
    .split(/[\s,]+/)
    .filter((t) => t !== "")
    .map((t) => {
      if (!/^\d+$/.test(t)) throw new Error(`${t} is not a process id; write numbers separated by commas`);
      return Number(t);
    });
}

/** "25" or "25 %" as 0.25; the monitor checks the range. */
export function parsePercent(text: string): number {
  const t = text.replace("%", "").trim();
  const v = Number(t);
  if (t === "" || !Number.isFinite(v)) throw new Error(`${text.trim() || "nothing"} is not a number; write a percentage of the time, such as 25`);
  return v / 100;
}

/** The monitor's error without the source and the setting, which are shown next to it. */
export function complaint(message: string, source: string): string {
  return message.replace(`set source ${source}: `, "").replace(/^(process|pids|cgroup|container|sample|level): /, "");
}
