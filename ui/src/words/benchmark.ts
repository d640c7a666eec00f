// The words and looks of benchmark results, the same as in reports.
import type { ReportLevelWords, ReportVerdictWords, ReportWords, ResultComparison, ResultGrade, ResultGuard, ResultKind, ResultLevel, ResultTEE, StatsVerdict } from "../api/types";
import { spaced } from "../format/measure";
import { formatTimes, formatTimesOf } from "../format/number";

export type Shape = "disc" | "square" | "triangle" | "diamond" | "inverted" | "ring" | "plus" | "cross";

/** A stand-in is not of the real thing; platform is a cost or gain between different machines; none is not judged. */
export type Kind = StatsVerdict | "stand-in" | "platform" | "none";

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

export function kindOf(c: Pick<ResultComparison, "grade" | "verdict" | "stand_in">): Kind {
  if (c.stand_in && c.verdict !== "invalid") return "stand-in";
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

/** The sentence of a comparison, without the verdict's word, which the chip shows; a stand-in keeps its. */
export function headlineOf(c: ResultComparison, cases = 1): string {
  const word = lookOf(kindOf(c)).word;
  if (c.stand_in && c.headline) return c.headline;
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
  const word = kindOf(c) === "stand-in" ? "stand-in " : "";
  if (c.cost_ratio !== null) return { text: word + boundOf(c, better) + ranged(c.cost_ratio, c.cost_ci_low, c.cost_ci_high), raw: `${c.cost_ratio}, from ${c.cost_ci_low} to ${c.cost_ci_high}`, missing: "" };
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

export function armsText(c: Pick<ResultComparison, "baseline" | "treatment">): string {
  return `${c.treatment || "unnamed"} against ${c.baseline || "unnamed"}`;
}

/** The reasons of a comparison, which have the messages of all guards that concern it, and what helps, without what the
 * headline and the details already say. */
export function doubtsOf(c: ResultComparison, guards: ResultGuard[], headline: string): { said: string[]; next: string[] } {
  const reasons = (c.reasons ?? []).filter((r) => r.trim() !== "");
  const mine = guards.filter((g) => g.level !== "info" && reasons.includes(g.message));
  const listed = new Set(mine.filter((g) => g.id === "several-dimensions" && c.verdict !== "invalid").map((g) => g.message));
  const above = [headline, ...(c.details ?? [])].join(" ").toLowerCase();
  const said = new Set(reasons.filter((r) => !listed.has(r) && !above.includes(r.toLowerCase())));
  return { said: [...said], next: [...new Set([c.open ?? "", ...mine.filter((g) => !listed.has(g.message)).map((g) => g.help)].filter((h) => h !== ""))] };
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
