// The frame around the pages: rail, top bar, and one page at a time.
import { MantineProvider, createTheme } from "@mantine/core";
import { lazy, Suspense, useEffect, type ComponentType } from "react";
import { MachineProvider, useMachine } from "../state/machine";
import type { Page } from "../state/place";
import { goTo } from "../state/place";
import { usePlace } from "../state/use-place";
import { useScheme } from "../state/use-theme";
import { openFindings } from "../words/verdict";
import { Overview } from "../pages/overview";
import { IconBenchmarks, IconContainers, IconDashboards, IconExplain, IconExplore, IconFindings, IconInfrastructure, IconOverhead, IconOverview, IconProcesses, IconTEE } from "./icons";
import { PlaceLink } from "./link";
import { styleNonce } from "./nonce";
import { Problem } from "./problem";
import { TopBar } from "./topbar";

const views: Record<Page, { label: string; icon: ComponentType; view: ComponentType }> = {
  overview: { label: "Overview", icon: IconOverview, view: Overview },
  tee: { label: "TEE", icon: IconTEE, view: lazy(() => import("../pages/tee")) },
  processes: { label: "Processes", icon: IconProcesses, view: lazy(() => import("../pages/processes")) },
  containers: { label: "Containers", icon: IconContainers, view: lazy(() => import("../pages/containers")) },
  infrastructure: { label: "Infrastructure", icon: IconInfrastructure, view: lazy(() => import("../pages/infrastructure")) },
  findings: { label: "Findings", icon: IconFindings, view: lazy(() => import("../pages/findings")) },
  explain: { label: "Explain", icon: IconExplain, view: lazy(() => import("../pages/explain")) },
  benchmarks: { label: "Benchmarks", icon: IconBenchmarks, view: lazy(() => import("../pages/benchmarks")) },
  explore: { label: "Explore", icon: IconExplore, view: lazy(() => import("../pages/explore")) },
  dashboards: { label: "Dashboards", icon: IconDashboards, view: lazy(() => import("../pages/dashboards")) },
  overhead: { label: "Overhead", icon: IconOverhead, view: lazy(() => import("../pages/overhead")) },
};

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
  const scheme = useScheme(usePlace().theme);
  return (
    <MantineProvider theme={theme} forceColorScheme={scheme} getStyleNonce={styleNonce}>
      <MachineProvider>
        <Frame />
      </MachineProvider>
    </MantineProvider>
  );
}

function Frame() {
  const place = usePlace();
  const { platform, annotations } = useMachine();
  const { view: View, label } = views[place.page];
  useEffect(() => {
    document.title = `${label} · ${platform.data?.hostname ?? "teescope"}`;
  }, [label, platform.data]);
  return (
    <div className="frame">
      <a className="skip" href="#content">
        Skip to content
      </a>
      <Rail />
      <TopBar />
      <main id="content" tabIndex={-1}>
        {platform.error && <Problem message={platform.error} retry={platform.retry} stale={platform.data !== null} />}
        {annotations.error && !platform.error && <p className="note note-warn">Findings are not marked on the charts: {annotations.error}</p>}
        <Suspense fallback={<p className="empty">Loading {label}.</p>}>
          <View />
        </Suspense>
      </main>
    </div>
  );
}

function Rail() {
  const place = usePlace();
  const { findings } = useMachine();
  const open = openFindings(findings.data).length;
  return (
    <nav className="rail" aria-label="Pages">
      <div className="brand" aria-hidden="true">
        <svg viewBox="0 0 32 32" width="22" height="22">
          <rect width="32" height="32" rx="7" className="brand-box" />
          <path d="M5 18h5l3-9 5 15 3-9 2 3h4" className="brand-line" />
        </svg>
        <span>teescope</span>
      </div>
      <ul>
        {(Object.keys(views) as Page[]).map((page) => {
          const { label, icon: Icon } = views[page];
          return (
            <li key={page}>
              <PlaceLink to={goTo(place, page)} className="rail-link" current={page === place.page}>
                <Icon />
                <span>{label}</span>
                {page === "findings" && open > 0 && (
                  <span className="count" aria-label={`${open} open`}>
                    {open}
                  </span>
                )}
              </PlaceLink>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}
