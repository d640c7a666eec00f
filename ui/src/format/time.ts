// Points in time and lengths of time as a person reads them, in the browser's zone.

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockSeconds = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayClock = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** "14:02", with the day when it is not today. Takes what the API sends. */
export function formatSince(iso: string, now: Date = new Date()): string {
  const d = new Date(iso);
  if (Number.isNaN(d.getTime())) return "unknown";
  return d.toDateString() === now.toDateString() ? clock.format(d) : dayClock.format(d);
}

/** "14:02:05", or with the day on windows longer than a day. Takes Unix seconds. */
export function formatMoment(seconds: number, span: number): string {
  return (span > 86400 ? dayClock : clockSeconds).format(new Date(seconds * 1000));
}

/** "3 min", "2 h 5 min": a length of time in at most two parts. */
export function formatLength(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  const parts: [number, string][] = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const i = parts.findIndex(([n]) => s >= n);
  if (i < 0) return "0 s";
  const [big, name] = parts[i]!;
  const first = `${Math.floor(s / big)} ${name}`;
  const next = parts[i + 1];
  const rest = next ? Math.floor((s % big) / next[0]) : 0;
  return rest > 0 && next ? `${first} ${rest} ${next[1]}` : first;
}

/** For an <input type="datetime-local">, which wants local time without a zone. */
export function toLocalInput(seconds: number): string {
  const d = new Date(seconds * 1000);
  return new Date(d.getTime() - d.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

/** The browser's zone as an offset: "UTC+1". */
export function zoneName(now: Date = new Date()): string {
  const minutes = -now.getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const [h, m] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "−" : "+"}${h}${m ? `:${String(m).padStart(2, "0")}` : ""}`;
}
