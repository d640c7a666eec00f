// A source's state and settings in words, and what is typed into them.
import type { Source } from "../api/types";

/** The source can be narrowed to some processes. */
export function canNarrow(s: Source): boolean {
  return s.narrows ?? false;
}

/** The source counts events in the kernel, and may do so for a part of the time. */
export function canSample(s: Source): boolean {
  return (s.sample ?? 0) > 0 && s.state !== "off";
}

/** The state in a word or two: a source that waits for being switched on is not
 * one that somebody switched off. */
export function stateWords(s: Source): string {
  if (s.state === "off") return s.optIn ? "off, opt-in" : "switched off";
  if (s.blind) return "blind here";
  return s.state;
}

/** Process ids between commas or spaces; an Error names what is none. */
export function parsePIDs(text: string): number[] {
  return text
    .split(/[\s,]+/)
    .filter((t) => t !== "")
    .map((t) => {
      if (!/^\d+$/.test(t)) throw new Error(`${t} is no process id; write numbers with commas between them`);
      return Number(t);
    });
}

/** "25" or "25 %" as 0.25; the monitor says which shares it takes. */
export function parsePercent(text: string): number {
  const t = text.replace("%", "").trim();
  const v = Number(t);
  if (t === "" || !Number.isFinite(v)) throw new Error(`${text.trim() || "nothing"} is no number; write percent of the time, such as 25`);
  return v / 100;
}

/** The monitor's complaint without what the reader sees beside it: which source
 * and which setting it is about. */
export function complaint(message: string, source: string): string {
  return message.replace(`set source ${source}: `, "").replace(/^(process|pids|cgroup|container|sample|level): /, "");
}
