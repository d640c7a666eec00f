// Queries that were run on this browser, the newest first.

const key = "teescope.queries";
const most = 30;

/** The queries that were run before; none if the browser stores nothing. */
export function earlierQueries(): string[] {
  try {
    const kept: unknown = JSON.parse(window.localStorage.getItem(key) ?? "[]");
    return Array.isArray(kept) ? kept.filter((q): q is string => typeof q === "string") : [];
  } catch {
    return [];
  }
}

/** Puts a query first. */
export function keepQuery(expr: string): void {
  if (expr === "") return;
  try {
    window.localStorage.setItem(key, JSON.stringify(withQuery(earlierQueries(), expr)));
  } catch {
    // The browser stores nothing: the list stays empty.
  }
}

export function withQuery(list: string[], expr: string): string[] {
  return [expr, ...list.filter((q) => q !== expr)].slice(0, most);
}
