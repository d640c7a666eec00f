// What the palette offers: pages, open findings, processes.
import { useState } from "react";
import { useMachine } from "../state/machine";
import { goTo, type Place } from "../state/place";
import { useProcesses } from "../state/processes";
import { here, move } from "../state/use-place";
import { openFindings } from "../words/verdict";
import { Drawer } from "./drawer";

interface Choice {
  kind: string;
  text: string;
  to: Partial<Place>;
}

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
  const { findings } = useMachine();
  const processes = useProcesses(true);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const p = here();
  const all: Choice[] = [
    ...places.map(([name, to]) => ({ kind: "page", text: name, to: to(p) })),
    ...openFindings(findings.data).map((f) => ({ kind: "finding", text: f.title, to: { problem: f.id } })),
    ...[...processes].sort().map((name) => ({ kind: "process", text: name, to: goTo(p, "processes", name) })),
  ];
  const wanted = text.trim().toLowerCase();
  const starts = (c: Choice) => Number(!c.text.toLowerCase().startsWith(wanted));
  const shown = all
    .filter((c) => c.text.toLowerCase().includes(wanted))
    .toSorted((a, b) => (wanted === "" ? 0 : starts(a) - starts(b)))
    .slice(0, most);
  const chosen = Math.min(at, shown.length - 1);
  const go = (c: Choice | undefined) => {
    if (!c) return;
    close();
    move(c.to);
    if (c.to.page) window.scrollTo(0, 0);
  };
  return (
    <Drawer label="Go to" close={close} middle>
      <input
        className="palette-input"
        role="combobox"
        aria-label="Page, process or finding"
        aria-expanded={shown.length > 0}
        aria-controls="palette-choices"
        aria-activedescendant={shown.length > 0 ? `palette-${chosen}` : undefined}
        placeholder="Page, process or finding"
        autoComplete="off"
        spellCheck={false}
        data-autofocus
        value={text}
        onChange={(e) => (setText(e.target.value), setAt(0))}
        onKeyDown={(e) => {
          const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
          if (e.key === "Enter") go(shown[chosen]);
          else if (by !== undefined && shown.length > 0) setAt((chosen + by + shown.length) % shown.length);
          else return;
          e.preventDefault();
        }}
      />
      {shown.length === 0 && <p className="dim">Nothing of that name.</p>}
      {shown.length > 0 && (
        <ul id="palette-choices" className="palette" role="listbox" aria-label="Choices">
          {shown.map((c, i) => (
            <li key={`${c.kind} ${c.text} ${i}`} id={`palette-${i}`} role="option" aria-selected={i === chosen} onPointerMove={() => setAt(i)} onClick={() => go(c)}>
              <span>{c.text}</span> <span className="dim small">{c.kind}</span>
            </li>
          ))}
        </ul>
      )}
    </Drawer>
  );
}
