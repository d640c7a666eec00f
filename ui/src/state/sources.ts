import type { Source } from "../api/types";

/** The sources that deliver any of these metrics. */
export function sourcesOf(sources: Source[] | null, metrics: string[]): Source[] {
  return (sources ?? []).filter((s) => s.metrics?.some((m) => metrics.includes(m)));
}
