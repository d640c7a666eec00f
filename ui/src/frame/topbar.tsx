// One line on top: the machine, the process filter, the time.
import { Autocomplete, Popover } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { labelValues } from "../api/client";
import { useLost } from "../api/reach";
import { useResource } from "../api/resource";
import { zoneName } from "../format/time";
import { literal, own, processFilter, select } from "../query/promql";
import { useMachine } from "../state/machine";
import { formatPlace, goTo, ranges, type Range } from "../state/place";
import { here, move, usePlace, zoomBack } from "../state/use-place";
import { copyText } from "../state/clipboard";
import { setTheme, themes, useTheme, type Theme } from "../state/use-theme";
import { sentence } from "../words/empty";
import { plainMessage } from "../words/message";
import { count } from "../words/verdict";
import { IconAuto, IconGood, IconMoon, IconShare, IconSun, IconWarning } from "./icons";
import { PlaceLink } from "./link";
import { LiveButton } from "./live";
import { MachineName } from "./machines";
import { PaletteButton } from "./palette";
import { QualityChip } from "./quality";
import { SpanForm } from "./span-form";
import { badgeOf } from "./tee-badge";

export function TopBar() {
  const place = usePlace();
  const { platform } = useMachine();
  const badge = badgeOf(platform.data?.tees ?? null);
  const p = platform.data;
  return (
    <header className="topbar">
      <div className="machine">
        <MachineName />
        {p && (
          <PlaceLink to={goTo(place, "tee")} className={`badge badge-${badge.level}`}>
            <span title={badge.title}>{badge.text}</span>
          </PlaceLink>
        )}
      </div>
      <ProcessFilter />
      <div className="chips">
        <FindingsLink />
        <QualityChip />
      </div>
      <RangePicker />
      <div className="tools">
        <LiveButton />
        <PaletteButton />
        <Share />
        <ThemeButton />
      </div>
    </header>
  );
}

function ProcessFilter() {
  const { process } = usePlace();
  const { window: w } = useMachine();
  const [text, setText] = useState(process);
  // Typed text is checked first: charts keep the last valid expression.
  const [tried, setTried] = useState(process);
  const last = useRef(tried);
  last.current = tried;
  useEffect(() => {
    if (process === last.current) return; // it comes from here, and more may have been typed since
    setText(process);
    setTried(process);
  }, [process]);
  useEffect(() => {
    if (text === tried) return;
    const timer = setTimeout(() => setTried(text), 300);
    return () => clearTimeout(timer);
  }, [text, tried]);
  // The server checks the expression: its syntax is RE2, not the browser's.
  const selector = select("tee_process_cpu_seconds_total", [...own(w), ...processFilter(tried)]);
  const matching = useResource(w.instance === "" ? null : `${selector} ${Math.floor(w.to / 30)} ${w.to - w.from}`, (s) => labelValues("process", selector, w, s));
  const names = matching.data ?? [];
  const bad = matching.error !== null && tried !== "";
  const good = !matching.loading && matching.error === null && matching.data !== null;
  useEffect(() => {
    if (good && tried !== here().process) move({ process: tried }, "replace");
  }, [good, tried]);
  return (
    <div className="filter">
      <Autocomplete
        aria-label="Process filter, a regular expression"
        placeholder="Filter"
        size="xs"
        value={text}
        onChange={setText}
        data={names.slice(0, 100)}
        filter={({ options }) => options}
        limit={12}
        error={bad && sentence(plainMessage(matching.error ?? ""))}
        onOptionSubmit={(v) => move({ process: `^${literal(v)}$` }, "replace")}
        clearable
        spellCheck={false}
        rightSectionWidth={text ? 28 : 0}
      />
      {!bad && (
        <span className="filter-count" aria-live="polite">
          {matching.data ? `${names.length} ${tried ? "match" : names.length === 1 ? "name" : "names"}` : ""}
        </span>
      )}
    </div>
  );
}

function RangePicker() {
  const place = usePlace();
  const { window: w } = useMachine();
  const [open, setOpen] = useState(false);
  return (
    <div className="ranges" role="group" aria-label={`Time range, times in ${zoneName()}`} title={`Times are in the time zone ${Intl.DateTimeFormat().resolvedOptions().timeZone} (${zoneName()})`}>
      {(Object.keys(ranges) as Range[]).map((r) => (
        <button key={r} type="button" aria-pressed={!place.fixed && place.range === r} onClick={() => move({ range: r, fixed: null })}>
          {r}
        </button>
      ))}
      <Popover opened={open} onChange={setOpen} position="bottom-end" shadow="md" trapFocus>
        <Popover.Target>
          <button type="button" aria-pressed={place.fixed !== null} aria-haspopup="dialog" aria-expanded={open} onClick={() => setOpen((o) => !o)}>
            {place.fixed ? fixedLabel(place.fixed.from, place.fixed.to) : "custom"}
          </button>
        </Popover.Target>
        <Popover.Dropdown aria-label="Custom time range">
          <SpanForm
            span={w}
            label="Show"
            choose={(fixed) => {
              move({ fixed });
              setOpen(false);
            }}
          >
            {place.fixed && (
              <button type="button" className="text-button" onClick={() => (zoomBack(), setOpen(false))}>
                Go back
              </button>
            )}
          </SpanForm>
        </Popover.Dropdown>
      </Popover>
      <span className="zone">{zoneName()}</span>
    </div>
  );
}

function fixedLabel(from: number, to: number): string {
  const a = new Date(from * 1000);
  const b = new Date(to * 1000);
  const time = (d: Date) => d.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  const day = (d: Date) => d.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  if (a.toDateString() === b.toDateString()) return `${a.toDateString() === new Date().toDateString() ? "" : `${day(a)} `}${time(a)}–${time(b)}`;
  return `${day(a)} ${time(a)}–${day(b)} ${time(b)}`;
}

/** How many problems are open, and the way to all findings. */
function FindingsLink() {
  const place = usePlace();
  const { findings, platform } = useMachine();
  // What was found before the monitor stopped to answer is not the state now.
  const lost = useLost() !== null;
  if (!findings.data) return null;
  const gone = lost || (platform.data?.gone ?? false);
  const problems = (findings.data.problems ?? []).filter((p) => !p.ended);
  const bad = gone || findings.data.summary.level === "critical";
  const well = problems.length === 0 && !gone;
  const Icon = well ? IconGood : IconWarning;
  return (
    <PlaceLink to={goTo(place, "findings")} className={`chip chip-link ${well ? "" : bad ? "chip-bad" : "chip-warn"}`} current={place.page === "findings"}>
      <Icon /> {gone ? "no answer" : well ? "no problem" : count(problems.length, "problem")}
    </PlaceLink>
  );
}

function Share() {
  const { window: w } = useMachine();
  const [said, setSaid] = useState("");
  const copy = async () => {
    // A link to a moving window would show others something else, so this one is fixed.
    const url = window.location.origin + window.location.pathname + formatPlace({ ...here(), fixed: { from: w.from, to: w.to } });
    if (await copyText(url)) setSaid("Link copied");
    else window.prompt("This browser does not let the page copy. Copy the link:", url);
    setTimeout(() => setSaid(""), 2500);
  };
  return (
    <button type="button" className="icon-button" aria-label="Copy a link to this view and time" title="Copy a link to this view and time" onClick={() => void copy()}>
      <IconShare />
      <span className="said" role="status">
        {said}
      </span>
    </button>
  );
}

const themeIcons = { auto: IconAuto, light: IconSun, dark: IconMoon };

function ThemeButton() {
  const theme = useTheme();
  const next: Theme = themes[(themes.indexOf(theme) + 1) % themes.length]!;
  const Icon = themeIcons[theme];
  const label = `Theme: ${theme === "auto" ? "system" : theme}`;
  return (
    <button type="button" className="icon-button" aria-label={label} title={label} onClick={() => setTheme(next)}>
      <Icon />
    </button>
  );
}
