// The tabs of a page: links, since the tab is part of the address.
import type { ReactNode } from "react";
import type { Place } from "../state/place";
import { PlaceLink } from "./link";

/** Tabs by their names in the address; the first one is "" there. */
export type TabList<T extends string> = { [id in T]: ReactNode };

/** The tab of a place; an unknown one is the first. */
export function tabOf<T extends string>(tabs: TabList<T>, place: Pick<Place, "tab">): T {
  const ids = Object.keys(tabs) as T[];
  return ids.find((t) => t === place.tab) ?? ids[0]!;
}

interface Props<T extends string> {
  label: string;
  tabs: TabList<T>;
  current: T;
  /** What else resets when the tab changes. */
  also?: Partial<Place>;
}

export function Tabs<T extends string>({ label, tabs, current, also = {} }: Props<T>) {
  const ids = Object.keys(tabs) as T[];
  return (
    <nav className="tabs ranges" aria-label={label}>
      {ids.map((t) => (
        <PlaceLink key={t} to={{ ...also, tab: t === ids[0] ? "" : t }} current={t === current}>
          {tabs[t]}
        </PlaceLink>
      ))}
    </nav>
  );
}
