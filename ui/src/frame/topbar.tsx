// One line on top: the machine, which processes, which time.
import { Autocomplete, Popover } from "@mantine/core";
import { useEffect, useState } from "react";
import { labelValues } from "../api/client";
import { useResource } from "../api/resource";
import { toLocalInput } from "../format/time";
import { literal, own, processFilter, select } from "../query/promql";
import { useMachine } from "../state/machine";
import { formatPlace, goTo, ranges, refreshes, themes, type Range, type Theme } from "../state/place";
import { here, move, usePlace, zoomBack } from "../state/use-place";
import { sentence } from "../words/empty";
import { IconAuto, IconMoon, IconShare, IconSun } from "./icons";
import { PlaceLink } from "./link";
import { badgeOf } from "./tee-badge";

export function TopBar() {
  const place = usePlace();
  const { platform } = useMachine();
  const badge = badgeOf(platform.data?.tees ?? null);
  const p = platform.data;
  return (
    <header className="topbar">
      <div className="machine">
        <h1 title={p ? `${p.os}, ${p.kernel}, ${p.cpuModel}` : ""}>{p?.hostname ?? "teescope"}</h1>
        {p && (
          <PlaceLink to={goTo(place, "tee")} className={`badge badge-${badge.level}`}>
            <span title={badge.title}>{badge.text}</span>
          </PlaceLink>
        )}
      </div>
      <ProcessFilter />
      <RangePicker />
      <div className="tools">
        <RefreshPicker />
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
  useEffect(() => setText(process), [process]);
  useEffect(() => {
    if (text === here().process) return;
    const timer = setTimeout(() => move({ process: text }, "replace"), 300);
    return () => clearTimeout(timer);
  }, [text]);
  // The server checks the expression: its syntax is RE2, not the browser's.
  const selector = select("tee_process_cpu_seconds_total", [...own(w), ...processFilter(process)]);
  const matching = useResource(w.instance === "" ? null : `${selector} ${Math.floor(w.to / 30)} ${w.to - w.from}`, (s) => labelValues("process", selector, w, s));
  const names = matching.data ?? [];
  const bad = matching.error !== null && process !== "";
  return (
    <div className="filter">
      <Autocomplete
        aria-label="Process filter, a regular expression"
        placeholder="All processes"
        size="xs"
        value={text}
        onChange={setText}
        data={names.slice(0, 100)}
        filter={({ options }) => options}
        limit={12}
        error={bad && sentence(shorten(matching.error ?? ""))}
        onOptionSubmit={(v) => move({ process: `^${literal(v)}$` }, "replace")}
        clearable
        spellCheck={false}
        rightSectionWidth={text ? 28 : 0}
      />
      {!bad && (
        <span className="filter-count" aria-live="polite">
          {matching.data ? `${names.length} ${process ? "match" : names.length === 1 ? "name" : "names"}` : ""}
        </span>
      )}
    </div>
  );
}

/** The part of the server's message that is about the expression. */
function shorten(message: string): string {
  const i = message.indexOf("error parsing regexp");
  return i < 0 ? message : message.slice(i).replace("error parsing regexp", "not a regular expression");
}

function RangePicker() {
  const place = usePlace();
  const { window: w } = useMachine();
  const [open, setOpen] = useState(false);
  return (
    <div className="ranges" role="group" aria-label="Time range">
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
          <form
            className="custom-range"
            onSubmit={(e) => {
              e.preventDefault();
              const form = new FormData(e.currentTarget);
              const from = new Date(String(form.get("from"))).getTime() / 1000;
              const to = new Date(String(form.get("to"))).getTime() / 1000;
              if (!(to > from)) return;
              move({ fixed: { from, to } });
              setOpen(false);
            }}
          >
            <label>
              From <input type="datetime-local" name="from" step="1" required defaultValue={toLocalInput(w.from)} />
            </label>
            <label>
              To <input type="datetime-local" name="to" step="1" required defaultValue={toLocalInput(w.to)} />
            </label>
            <div className="row">
              <button type="submit" className="button">
                Show
              </button>
              {place.fixed && (
                <button type="button" className="text-button" onClick={() => (zoomBack(), setOpen(false))}>
                  Go back
                </button>
              )}
            </div>
          </form>
        </Popover.Dropdown>
      </Popover>
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

function RefreshPicker() {
  const { refresh } = usePlace();
  return (
    <select aria-label="Refresh" value={refresh} onChange={(e) => move({ refresh: refreshes.find((r) => r === Number(e.target.value)) ?? 0 })}>
      {refreshes.map((r) => (
        <option key={r} value={r}>
          {r === 0 ? "refresh off" : `every ${r} s`}
        </option>
      ))}
    </select>
  );
}

function Share() {
  const { window: w } = useMachine();
  const [said, setSaid] = useState("");
  const copy = async () => {
    // A link to a moving window would show others something else, so this one is fixed.
    const url = window.location.origin + window.location.pathname + formatPlace({ ...here(), fixed: { from: w.from, to: w.to } });
    try {
      await navigator.clipboard.writeText(url);
      setSaid("Link copied");
    } catch {
      setSaid("Copy the address bar");
    }
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
  const { theme } = usePlace();
  const next: Theme = themes[(themes.indexOf(theme) + 1) % themes.length]!;
  const Icon = themeIcons[theme];
  const label = `Theme: ${theme === "auto" ? "system" : theme}`;
  return (
    <button type="button" className="icon-button" aria-label={label} title={label} onClick={() => move({ theme: next }, "replace")}>
      <Icon />
    </button>
  );
}
