// The colour of a name: always the same, whatever else is on the chart.
import { others } from "../query/promql";

export const colours = 8;
const dashes: number[][] = [[], [7, 3], [2, 3], [9, 3, 2, 3], [14, 4]];

/** FNV-1a, 32 bits, of the name's UTF-16 units. */
function hash(s: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < s.length; i++) {
    h ^= s.charCodeAt(i);
    h = Math.imul(h, 0x01000193);
  }
  return h >>> 0;
}

/** Index of the colour of a name, 0 to 7. */
export function colourOf(name: string): number {
  return hash(name) % colours;
}

export interface Stroke {
  /** A CSS variable. */
  colour: string;
  dash: number[];
}

/** Strokes for the names of one chart. The lines of a fixed chart take the colours in order, and
 * then again with dashes. Two names of the same colour get different dashes, in alphabetical order,
 * so a refresh changes nothing. */
export function strokes(names: string[], fixed = false): Map<string, Stroke> {
  const used = Array.from({ length: colours }, () => 0);
  const out = new Map<string, Stroke>();
  if (fixed) return new Map(names.map((n, i) => [n, { colour: `--series-${i % colours}`, dash: dashes[Math.floor(i / colours) % dashes.length]! }]));
  for (const name of names.toSorted()) {
    if (name === others) {
      out.set(name, { colour: "--series-rest", dash: [3, 3] });
      continue;
    }
    const c = colourOf(name);
    out.set(name, { colour: `--series-${c}`, dash: dashes[used[c]! % dashes.length]! });
    used[c]!++;
  }
  return out;
}
