// What the page of another machine lacks: only its stored series are known.
import { useMachine } from "../state/machine";
import type { Page } from "../state/place";
import { usePlace } from "../state/use-place";
import { Sentence } from "../words/term";

/** What is not about the chosen machine on a page. */
const others: Partial<Record<Page, string>> = {
  benchmarks: "Benchmark results are from this monitor's data folder. Each result names the machine on which it was measured.",
  explore: "Queries cover all machines; add the labels job and instance to select one machine. The metric browser and What changed show this machine only.",
};

export function Elsewhere() {
  const { page } = usePlace();
  const { platform } = useMachine();
  const p = platform.data;
  if (!p?.elsewhere || page === "fleet") return null;
  const lacks = [...(p.lacks ?? []), others[page]].filter((text) => text !== undefined);
  return (
    <div className="elsewhere-note" role="note" aria-label="What is known about this machine">
      {lacks.map((text) => (
        <p key={text} className="note">
          <Sentence text={text} />
        </p>
      ))}
    </div>
  );
}
