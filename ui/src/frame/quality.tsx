// How good the numbers are: one chip for the whole page, and the reasons behind it.
import { useState } from "react";
import { useLost } from "../api/reach";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { lossOf } from "../words/budget";
import { qualityOf } from "../words/quality";
import { Sentence } from "../words/term";
import { Drawer } from "./drawer";
import { IconGood, IconInfo } from "./icons";
import { PlaceLink } from "./link";

export function QualityChip() {
  const { sources } = useMachine();
  const [open, setOpen] = useState(false);
  const lost = useLost() !== null;
  // Without the monitor nothing is known of its sources.
  if (!sources.data || lost) return null;
  const q = qualityOf(sources.data);
  return (
    <>
      <button type="button" className={`chip chip-button ${q.level === "warning" ? "chip-warn" : ""}`} data-quality={q.level} aria-haspopup="dialog" aria-label={`Data quality: ${q.text}`} onClick={() => setOpen(true)}>
        {q.level === "warning" ? <IconInfo /> : <IconGood />}
        <span>{q.text}</span>
      </button>
      {open && (
        <Drawer label="Data quality" close={() => setOpen(false)}>
          <Reasons close={() => setOpen(false)} />
        </Drawer>
      )}
    </>
  );
}

function Reasons({ close }: { close: () => void }) {
  const place = usePlace();
  const { sources, overhead } = useMachine();
  const all = sources.data ?? [];
  const { groups } = qualityOf(all);
  const loss = lossOf(all, overhead.data?.budget ?? 0);
  return (
    <>
      <h2>Data quality</h2>
      <p>{groups.length === 0 ? "Every source that can work here counts every event." : "These limits apply to the numbers of this page. The band around a line is the 95 % interval of its estimate."}</p>
      {groups.map((g) => (
        <section key={g.title} aria-label={g.title}>
          <h3>{g.title}</h3>
          <dl className="facts">
            {g.sources.map((s) => (
              <div key={s.name} style={{ display: "contents" }} data-limits={s.name}>
                <dt className="mono">{s.name}</dt>
                <dd>
                  <Sentence text={s.text} />
                </dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
      {loss.back && <p className="dim">{loss.back}</p>}
      <p onClick={close}>
        <PlaceLink to={goTo(place, "settings")}>Sources and their settings</PlaceLink>
      </p>
    </>
  );
}
