// The frame around the pages: rail, top bar, and one page at a time.
import { Menu, MantineProvider, createTheme } from "@mantine/core";
import { lazy, Suspense, useEffect, type ComponentType } from "react";
import { unanswered, useLost } from "../api/reach";
import { MachineProvider, useMachine } from "../state/machine";
import type { Page } from "../state/place";
import { goTo, misread } from "../state/place";
import { move, usePlace } from "../state/use-place";
import { useScheme } from "../state/use-theme";
import { several } from "../words/fleet";
import { Now } from "../pages/now";
import { IconBenchmarks, IconExplore, IconFindings, IconFleet, IconMachine, IconMenu, IconNow, IconProcesses, IconSettings, IconTEE } from "./icons";
import { Elsewhere } from "./elsewhere";
import { Gone } from "./gone";
import { Guard } from "./guard";
import { Lane } from "./lane";
import { PlaceLink } from "./link";
import { styleNonce } from "./nonce";
import { Problem } from "./problem";
import { TopBar } from "./topbar";

/** The parts of the page that load when opened, or earlier in an idle moment. */
const parts = {
  processes: () => import("../pages/processes"),
  tee: () => import("../pages/tee"),
  machine: () => import("../pages/machine"),
  benchmarks: () => import("../pages/benchmarks"),
  explore: () => import("../pages/explore"),
  findings: () => import("../pages/findings"),
  settings: () => import("../pages/settings"),
  fleet: () => import("../pages/fleet"),
  process: () => import("../process/page"),
  problem: () => import("../findings/drawer"),
};

const views: Record<Page, { label: string; icon: ComponentType; view: ComponentType }> = {
  now: { label: "Now", icon: IconNow, view: Now },
  processes: { label: "Processes", icon: IconProcesses, view: lazy(parts.processes) },
  tee: { label: "TEE", icon: IconTEE, view: lazy(parts.tee) },
  machine: { label: "Machine", icon: IconMachine, view: lazy(parts.machine) },
  benchmarks: { label: "Benchmarks", icon: IconBenchmarks, view: lazy(parts.benchmarks) },
  explore: { label: "Explore", icon: IconExplore, view: lazy(parts.explore) },
  findings: { label: "Findings", icon: IconFindings, view: lazy(parts.findings) },
  settings: { label: "Settings", icon: IconSettings, view: lazy(parts.settings) },
  fleet: { label: "Machines", icon: IconFleet, view: lazy(parts.fleet) },
};

/** The pages of the rail; Settings is below them, and the top bar leads to Findings. The list of machines is there
 * where there are several. */
const rail: Page[] = ["fleet", "now", "processes", "tee", "machine", "benchmarks", "explore"];

/** The tabs of a phone; the other pages are in the menu behind them. */
const tabs: Page[] = ["now", "findings", "processes", "tee"];

const theme = createTheme({
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
  fontFamilyMonospace: "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
  defaultRadius: "sm",
  primaryColor: "brand",
  colors: {
    brand: ["#e3edf9", "#c9dcf3", "#a6c5ea", "#8fbcff", "#6ea2ff", "#3f78c2", "#1d4f91", "#1a4781", "#163c6e", "#11305a"],
    // Mantine takes text, borders and surfaces of the dark theme from here.
    dark: ["#e6ebf1", "#c6d0db", "#a3b0bf", "#7d8b9c", "#303c4a", "#26313d", "#18202a", "#10161d", "#0c1116", "#080b0f"],
  },
});

export function App() {
  const scheme = useScheme();
  return (
    <MantineProvider theme={theme} forceColorScheme={scheme} getStyleNonce={styleNonce}>
      <Guard what="The page">
        <OneMachine />
      </Guard>
    </MantineProvider>
  );
}

/** Everything anew for another machine. */
function OneMachine() {
  const { machine } = usePlace();
  return (
    <MachineProvider key={machine ? JSON.stringify([machine.job, machine.instance]) : ""}>
      <Frame />
    </MachineProvider>
  );
}

const ProblemDrawer = lazy(parts.problem);

/** Loads the other pages once this one has its data. */
function useAhead(ready: boolean): void {
  useEffect(() => {
    if (!ready) return;
    // A part that fails to load now is requested again when it is opened.
    const load = () => Object.values(parts).forEach((part) => void part().catch(() => undefined));
    const timer = setTimeout(() => ("requestIdleCallback" in window ? requestIdleCallback(load) : load()), quiet);
    return () => clearTimeout(timer);
  }, [ready]);
}

/** Milliseconds after which the first page should have its charts. */
const quiet = 2000;

function Frame() {
  const place = usePlace();
  const { platform, annotations, findings } = useMachine();
  const { view: View, label } = views[place.page];
  useAhead(platform.data !== null);
  const vain = misread(window.location.search);
  useEffect(() => {
    document.title = `${label} · ${platform.data?.hostname ?? "teescope"}`;
  }, [label, platform.data]);
  return (
    <div className="frame">
      <a className="skip" href="#content">
        Skip to content
      </a>
      {place.page === "now" && (findings.data?.problems ?? []).length > 0 && (
        <a className="skip" href="#problems">
          Skip to the first problem
        </a>
      )}
      <Rail />
      <TopBar />
      <main id="content" tabIndex={-1}>
        <Lane />
        <Gone />
        {vain && (
          <p className="note note-warn" role="alert">
            {vain}
          </p>
        )}
        <Elsewhere />
        {platform.error && <Problem message={platform.error} retry={platform.retry} stale={platform.data !== null} />}
        {annotations.error && annotations.error !== unanswered && !platform.error && <p className="note note-warn">Findings are not marked on the charts: {annotations.error}</p>}
        <Guard key={place.page} what={`The page ${label}`}>
          <Suspense fallback={<p className="empty page-loading">Loading {label}.</p>}>
            <View />
          </Suspense>
        </Guard>
      </main>
      {place.problem !== "" && (
        <Guard key={place.problem} what="The finding">
          <Suspense fallback={null}>
            <ProblemDrawer id={place.problem} />
          </Suspense>
        </Guard>
      )}
    </div>
  );
}

function Rail() {
  const place = usePlace();
  const { findings, fleet } = useMachine();
  const there = (page: Page) => page !== "fleet" || several(fleet.data) || place.page === "fleet";
  const open = useLost() === null ? (findings.data?.problems ?? []).filter((p) => !p.ended).length : 0;
  const link = (page: Page, count = 0) => {
    const { label, icon: Icon } = views[page];
    return (
      <li key={page}>
        <PlaceLink to={goTo(place, page)} className="rail-link" current={page === place.page}>
          <Icon />
          <span>{label}</span>
          {count > 0 && (
            <span className="count" aria-label={`${count} open`}>
              {count}
            </span>
          )}
        </PlaceLink>
      </li>
    );
  };
  const others = (Object.keys(views) as Page[]).filter((p) => !tabs.includes(p) && there(p));
  return (
    <nav className="rail" aria-label="Pages">
      <div className="brand" aria-hidden="true">
        <svg viewBox="0 0 32 32" width="22" height="22">
          <rect width="32" height="32" rx="7" className="brand-box" />
          <path d="M5 18h5l3-9 5 15 3-9 2 3h4" className="brand-line" />
        </svg>
        <span>teescope</span>
      </div>
      <div className="rail-wide">
        <ul>{rail.filter(there).map((page) => link(page))}</ul>
        <ul className="rail-foot">{link("settings")}</ul>
      </div>
      <ul className="rail-tabs">
        {tabs.map((page) => link(page, page === "findings" ? open : 0))}
        <li>
          <Menu position="top-end" shadow="md" width={180}>
            <Menu.Target>
              <button type="button" className="rail-link" aria-current={others.includes(place.page) ? "page" : undefined}>
                <IconMenu />
                <span>{others.includes(place.page) ? views[place.page].label : "More"}</span>
              </button>
            </Menu.Target>
            <Menu.Dropdown>
              {others.map((page) => (
                <Menu.Item key={page} onClick={() => (move(goTo(place, page)), window.scrollTo(0, 0))}>
                  {views[page].label}
                </Menu.Item>
              ))}
            </Menu.Dropdown>
          </Menu>
        </li>
      </ul>
    </nav>
  );
}
