// Line icons on a 20-unit square; they never stand alone without a label.
import type { ReactNode } from "react";

function icon(path: ReactNode) {
  return function Icon() {
    return (
      <svg viewBox="0 0 20 20" width="18" height="18" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true" className="icon">
        {path}
      </svg>
    );
  };
}

export const IconNow = icon(<path d="M3 11h3l2-6 4 10 2-4h3" />);
export const IconTEE = icon(<path d="M10 2.5l6 2.2v4.6c0 4-2.6 6.8-6 8.2-3.4-1.4-6-4.2-6-8.2V4.7zM7.5 9.8l1.9 1.9 3.3-3.6" />);
export const IconProcesses = icon(<path d="M3 5h14M3 10h9M3 15h5" />);
export const IconMachine = icon(<path d="M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01" />);
export const IconFleet = icon(<path d="M3 3.5h5v5H3zM12 3.5h5v5h-5zM3 11.5h5v5H3zM12 11.5h5v5h-5z" />);
export const IconFindings = icon(<path d="M4.5 17.5v-14M4.5 4h10l-2 3.5 2 3.5h-10" />);
export const IconBenchmarks = icon(<path d="M3 5h6M3 10h10M3 15h4M11 3v4M15 8v4M9 13v4" />);
export const IconExplore = icon(<path d="M4 5l5 5-5 5M11 15h5" />);
export const IconSettings = icon(<path d="M3 6h7M14 6h3M12 4v4M3 14h3M10 14h7M8 12v4" />);
export const IconPause = icon(<path d="M7 4.5v11M13 4.5v11" strokeWidth="2.2" />);
export const IconPlay = icon(<path d="M6.5 4.2l9 5.8-9 5.8z" />);
export const IconSearch = icon(<path d="M8.8 3.5a5.3 5.3 0 100 10.6 5.3 5.3 0 000-10.6zM12.8 12.8l4 4" />);
export const IconClose = icon(<path d="M5 5l10 10M15 5L5 15" />);
export const IconMenu = icon(<path d="M10 4.5h.01M10 10h.01M10 15.5h.01" strokeWidth="2.6" />);
export const IconWarning = icon(<path d="M10 3l7.5 13.5h-15zM10 8.5v3.5M10 14.3h.01" />);
export const IconCritical = icon(<path d="M6.8 2.5h6.4l4.3 4.3v6.4l-4.3 4.3H6.8l-4.3-4.3V6.8zM10 6.2v4.6M10 13.6h.01" />);
export const IconInfo = icon(<path d="M10 2.8a7.2 7.2 0 100 14.4 7.2 7.2 0 000-14.4zM10 9.2v4.3M10 6.5h.01" />);
export const IconGood = icon(<path d="M10 2.8a7.2 7.2 0 100 14.4 7.2 7.2 0 000-14.4zM6.8 10.2l2.2 2.2 4.2-4.6" />);
export const IconUnknown = icon(<path d="M10 2.8a7.2 7.2 0 100 14.4 7.2 7.2 0 000-14.4zM7.8 8a2.2 2.2 0 114 1.3c-.8.7-1.8 1-1.8 2.2M10 14h.01" />);
export const IconShare = icon(<path d="M8.5 11.5l3-3M9 6.5l2-2a3.2 3.2 0 014.5 4.5l-2 2M11 13.5l-2 2A3.2 3.2 0 014.5 11l2-2" />);
export const IconSun = icon(<path d="M10 6.5a3.5 3.5 0 100 7 3.5 3.5 0 000-7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M15.7 4.3l-1.1 1.1M5.4 14.6l-1.1 1.1" />);
export const IconMoon = icon(<path d="M16.5 11.8A7 7 0 018.2 3.5a7 7 0 108.3 8.3z" />);
export const IconAuto = icon(<path d="M3 4.5h14v9H3zM7.5 17h5M10 13.5V17" />);
