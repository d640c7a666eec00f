// The words and looks of benchmark results, the same as in reports.
import type { ReportLevelWords, ReportVerdictWords, ReportWords, ResultComparison, ResultGrade, ResultGuard, ResultKind, ResultLevel, ResultTEE, StatsVerdict } from "../api/types";
import { spaced } from "../format/measure";
import { formatTimes, formatTimesOf } from "../format/number";

export type Shape = "disc" | "square" | "triangle" | "diamond" | "inverted" | "ring" | "plus" | "cross";

/** Platform is a cost or gain between different machines; none is not judged. */
export type Kind = StatsVerdict | "platform" | "none";

/** What the server calls verdicts, grades, designs and levels. */
let words: ReportWords | null = null;

/** Sets the words, once, before a result is shown. */
export function setWords(w: ReportWords): ReportWords {
  return (words = w);
}

function known(): ReportWords {
  if (!words) throw new Error("a result is shown before the words of the server are known");
  return words;
}

/** The kinds of verdict, in the order of lists. */
export function allKinds(): Kind[] {
  return (known().verdicts ?? []).map((v) => v.verdict as Kind);
}

/** The look of a verdict: a word, a shape and a tone; each alone identifies it. */
export function lookOf(k: Kind): ReportVerdictWords {
  return known().verdicts!.find((v) => v.verdict === k)!;
}

/** The shape of an arm, by its place among the environments; its colour is the series of the same number. */
export function armShape(i: number): Shape {
  const { arms } = known();
  return arms![i % arms!.length] as Shape;
}

export function kindOf(c: Pick<ResultComparison, "grade" | "verdict">): Kind {
  if ((c.verdict === "cost" || c.verdict === "gain") && known().platforms?.includes(c.grade as ResultGrade)) return "platform";
  return allKinds().includes(c.verdict) ? c.verdict : "none";
}

/** What a comparison of a grade may be called. */
export function gradeMeans(g: ResultGrade | ""): string {
  const { grades } = known();
  return grades![g] ?? grades![""]!;
}

export function designText(k: ResultKind): string {
  const { designs } = known();
  return designs![k] ?? designs![""]!;
}

export function levelOf(l: ResultLevel): ReportLevelWords {
  const { levels } = known();
  return levels![l] ?? levels!["info"]!;
}

/** The sentence of a comparison, without the verdict's word, which the chip shows. */
export function headlineOf(c: ResultComparison, cases = 1): string {
  const word = lookOf(kindOf(c)).word;
  const said = c.headline.trim() || `${c.treatment} against ${c.baseline} on ${spaced(c.metric)}: ${word}`;
  const named = cases > 1 && c.case !== "" && !said.includes(c.case) ? `${c.case}: ${said}` : said;
  return named.startsWith(`${word}: `) ? named.slice(word.length + 2) : named;
}

/** Why a comparison has no ratio. */
export function noRatio(c: ResultComparison): string {
  return (c.reasons ?? []).filter((r) => r.trim() !== "").join("; ") || "the document gives no reason";
}

/** "3.12x [2.9, 3.41]", with ≤ or ≥ if an arm stood at a ceiling; better is that of the metric. A
 * missing ratio has its reason. */
export function costText(c: ResultComparison, better: string): { text: string; raw: string; missing: string } {
  const ranged = (v: number, lo: number | null, hi: number | null) => (lo === null || hi === null ? `${formatTimes(v)}, interval missing` : formatTimesOf(v, lo, hi));
  if (c.cost_ratio !== null) return { text: boundOf(c, better) + ranged(c.cost_ratio, c.cost_ci_low, c.cost_ci_high), raw: `${c.cost_ratio}, from ${c.cost_ci_low} to ${c.cost_ci_high}`, missing: "" };
  // If neither direction is better, a ratio is not a cost.
  if (c.ratio !== null) return { text: `ratio ${ranged(c.ratio, c.ci_low, c.ci_high)}`, raw: `${c.ratio}, from ${c.ci_low} to ${c.ci_high}`, missing: "" };
  return { text: "missing", raw: "no value", missing: noRatio(c) };
}

/** The bound of the ratio as a bound of the cost, which is the inverse if higher is better. */
function boundOf(c: ResultComparison, better: string): string {
  if (c.bound === "none" || !c.bound) return "";
  return (c.bound === "le") === (better !== "higher") ? "≤ " : "≥ ";
}

/** The counted unit of a comparison. */
export function replicates(c: ResultComparison): string {
  return c.estimator.endsWith("mann-whitney") ? "unpaired runs" : "pairs";
}

/** What would decide an open comparison; "" if nothing is open. */
export function decidingOf(c: ResultComparison): string {
  if (c.pairs_needed <= 0) return "";
  const needed = `${c.pairs_needed} ${replicates(c)}`;
  return c.ci_low === null ? `a verdict needs at least ${needed}` : `${needed} in all would probably decide (4 in 5)`;
}

export function armsText(c: Pick<ResultComparison, "baseline" | "treatment">): string {
  return `${c.treatment || "unnamed"} against ${c.baseline || "unnamed"}`;
}

/** The reasons of a comparison and its guards, with their remedies, without what the headline
 * already says. */
export function doubtsOf(c: ResultComparison, guards: ResultGuard[], headline: string): { said: string[]; next: string[] } {
  const mine = guards.filter((g) => g.level !== "info" && (!g.case || g.case === c.case) && (!g.treatment || g.treatment === c.treatment) && (!g.metric || g.metric === c.metric));
  const said = new Set([...(c.reasons ?? []), ...mine.map((g) => g.message)].filter((t) => t.trim() !== "" && !headline.includes(t)));
  const open = decidingOf(c);
  const pairs = open ? [`${open}; there are ${c.n_pairs} so far.`] : [];
  return { said: [...said], next: [...new Set([...pairs, ...mine.map((g) => g.help).filter((h) => h !== "")])] };
}

/** The known protection of an arm; "" if unknown. */
export function securityText(t: ResultTEE): string {
  if (t.type === "" || t.type === "unknown") return "";
  if (t.type === "none") return "no TEE";
  const how = t.declared ? ", declared by the launcher, not seen from inside" : t.active ? ", detected from inside" : "";
  return `${t.type}${t.active ? "" : ", not active"}${how}${t.debug ? ", debug: not protected" : ""}`;
}

/** A command quoted for a shell. */
export function shellLine(argv: string[]): string {
  return argv.map((a) => (/^[\w./=:,@%+-]+$/.test(a) ? a : `'${a.replaceAll("'", `'\\''`)}'`)).join(" ");
}
