// What the palette offers: pages, open findings, processes.
import { useState } from "react";
import { useMachine } from "../state/machine";
import { goTo, type Place } from "../state/place";
import { useProcesses } from "../state/processes";
import { here } from "../state/use-place";
import { documents, documentURL } from "../words/documents";
import { several } from "../words/fleet";
import { openFindings } from "../words/verdict";
import { Chooser, type Choice } from "./chooser";

/** Further choices are found by typing. */
const most = 12;

const places: [string, (p: Place) => Partial<Place>][] = [
  ["Now", (p) => goTo(p, "now")],
  ["Processes", (p) => goTo(p, "processes")],
  ["Containers", (p) => ({ ...goTo(p, "processes"), tab: "containers" })],
  ["TEE", (p) => goTo(p, "tee")],
  ["Machine", (p) => goTo(p, "machine")],
  ["Benchmarks", (p) => goTo(p, "benchmarks")],
  ["Explore", (p) => goTo(p, "explore")],
  ["What changed", (p) => ({ ...goTo(p, "explore"), tab: "changes" })],
  ["Dashboards", (p) => ({ ...goTo(p, "explore"), tab: "dashboards" })],
  ["Findings", (p) => goTo(p, "findings")],
  ["Checks", (p) => ({ ...goTo(p, "findings"), tab: "checks" })],
  ["Settings", (p) => goTo(p, "settings")],
];

export default function Palette({ close }: { close: () => void }) {
  const { findings, fleet } = useMachine();
  const processes = useProcesses(true);
  const [text, setText] = useState("");
  const p = here();
  const all: Choice[] = [
    ...(several(fleet.data) ? [{ kind: "page", text: "Machines", to: goTo(p, "fleet") }] : []),
    ...places.map(([name, to]) => ({ kind: "page", text: name, to: to(p) })),
    ...openFindings(findings.data).map((f) => ({ kind: "finding", text: f.sentence ?? f.title, to: { problem: f.id } })),
    ...(text.trim() === "" ? [] : documents.map(([name, about]) => ({ kind: `document ${name}`, text: about, to: {}, href: documentURL(name) }))),
    ...[...processes].sort().map((name) => ({ kind: "process", text: name, to: goTo(p, "processes", name) })),
  ];
  const wanted = text.trim().toLowerCase();
  const starts = (c: Choice) => Number(!c.text.toLowerCase().startsWith(wanted));
  const shown = all
    .filter((c) => c.text.toLowerCase().includes(wanted))
    .toSorted((a, b) => (wanted === "" ? 0 : starts(a) - starts(b)))
    .slice(0, most);
  return <Chooser label="Go to" field="Page, process or finding" text={text} setText={setText} choices={shown} none="No page, process, finding or document matches." close={close} />;
}
