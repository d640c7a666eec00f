// The quality of the page's numbers: one phrase for all of them, and its reasons.
import type { Source } from "../api/types";
import { because, blindReason, sentence } from "./empty";
import { errorOf, estimateWords, halfInterval, roughly } from "./remarks";
import { count } from "./verdict";

export interface Quality {
  /** "estimates ±18 %, 1 source off". */
  text: string;
  level: "good" | "warning";
  groups: { title: string; sources: { name: string; text: string }[] }[];
}

/** A source switched off by a user or the budget, not by default. */
function isOff(s: Source): boolean {
  return (s.state === "off" && !s.optIn && !s.auto) || (Boolean(s.blind) && s.reason === "budget");
}

function isEstimate(s: Source): boolean {
  return (s.state === "available" || s.state === "degraded") && !s.blind && Boolean(s.estimated);
}

export function qualityOf(sources: Source[]): Quality {
  const estimates = sources.filter(isEstimate);
  const off = sources.filter(isOff);
  const hidden = sources.filter((s) => s.blind && !isOff(s));
  const failed = sources.filter((s) => s.state === "unavailable" && !s.blind);
  const partly = sources.filter((s) => s.state === "degraded" && !s.blind && !isEstimate(s));
  const errors = estimates.flatMap((s) => errorOf(s) ?? []);
  const said = [
    estimates.length > 0 && `estimates${errors.length === 0 ? "" : ` ±${roughly(halfInterval(Math.max(...errors)))}`}`,
    off.length > 0 && `${count(off.length, "source")} off`,
    failed.length > 0 && `${count(failed.length, "source")} failed`,
  ].filter((x) => x !== false);
  const why = (s: Source) => because("", { reason: blindReason(s), remedy: s.remedy }).replace(/^(: |\.)/, "");
  const groups = [
    {
      title: "Estimates",
      list: estimates,
      text: (s: Source) => `${sentence(estimateWords(s.coverage ?? 0, errorOf(s)))}${s.reason ? ` ${sentence(s.reason)}` : ""}`,
    },
    { title: "Off", list: off, text: (s: Source) => (s.blind ? why(s) : "Switched off.") },
    { title: "Failed", list: failed, text: why },
    { title: "Incomplete", list: partly, text: why },
    { title: "Not on this machine", list: hidden, text: why },
  ];
  return {
    text: said.length > 0 ? said.join(", ") : "full counts",
    level: said.length > 0 ? "warning" : "good",
    groups: groups.filter((g) => g.list.length > 0).map((g) => ({ title: g.title, sources: g.list.map((s) => ({ name: s.name, text: sentence(g.text(s)) })) })),
  };
}
