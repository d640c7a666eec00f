// The marks that distinguish arms and verdicts.
import { armShape, lookOf, type Kind, type Shape } from "../words/benchmark";

const paths: Record<Exclude<Shape, "disc" | "ring">, string> = {
  square: "M-4.4-4.4H4.4V4.4H-4.4Z",
  diamond: "M0-6.2L6.2 0L0 6.2L-6.2 0Z",
  triangle: "M0-6L5.8 4.3H-5.8Z",
  inverted: "M0 6L5.8-4.3H-5.8Z",
  cross: "M-4.2-4.2L4.2 4.2M-4.2 4.2L4.2-4.2",
  plus: "M-5 0H5M0-5V5",
};

/** A shape around 0,0, of about radius 5, in a colour token. */
export function Glyph({ shape, tone }: { shape: Shape; tone: string }) {
  const colour = `var(--${tone})`;
  if (shape === "disc") return <circle r="5" fill={colour} />;
  if (shape === "ring") return <circle r="4.5" fill="var(--surface)" stroke={colour} strokeWidth="2" />;
  const line = shape === "cross" || shape === "plus";
  return <path d={paths[shape]} fill={line ? "none" : colour} stroke={line ? colour : "none"} strokeWidth="2.2" />;
}

/** A symbol in a line of text. */
export function Swatch({ shape, tone }: { shape: Shape; tone: string }) {
  return (
    <svg className="swatch-shape" viewBox="-7 -7 14 14" width="12" height="12" aria-hidden="true">
      <Glyph shape={shape} tone={tone} />
    </svg>
  );
}

/** How an arm looks, by its place among the environments. */
export function armLook(i: number): { shape: Shape; tone: string } {
  return i < 0 ? { shape: "diamond", tone: "series-rest" } : { shape: armShape(i), tone: `series-${i % 8}` };
}

export function ArmName({ name, index }: { name: string; index: number }) {
  return (
    <span className="arm-name">
      <Swatch {...armLook(index)} /> {name || "unnamed"}
    </span>
  );
}

/** A verdict by shape, word and colour. */
export function VerdictChip({ kind, material = false }: { kind: Kind; material?: boolean }) {
  const look = lookOf(kind);
  return (
    <span className={`chip verdict-chip tone-${look.tone}`} title={look.means} data-verdict={kind}>
      <Swatch shape={look.shape as Shape} tone={look.tone} /> {look.word}
      {material && kind !== "platform" && kind !== "stand-in" ? ", material" : ""}
    </span>
  );
}
