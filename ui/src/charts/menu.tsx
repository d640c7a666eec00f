// What can be done with a chart: its query, its numbers, its window.
import { Menu } from "@mantine/core";
import type { RefObject } from "react";
import { IconMenu } from "../frame/icons";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { here, move } from "../state/use-place";

interface Props {
  title: string;
  /** Null while there is nothing to show. */
  expr: string | null;
  csv: () => string;
  /** What fills the screen. */
  box: RefObject<HTMLElement | null>;
}

export function ChartMenu({ title, expr, csv, box }: Props) {
  const { window: w } = useMachine();
  const explain = () => {
    const place = here();
    const subject = place.page === "processes" || place.page === "explain" ? place.subject : "";
    move({ ...goTo(place, "explain", subject), fixed: { from: w.from, to: w.to } });
  };
  return (
    <Menu position="bottom-end" shadow="md" width={190}>
      <Menu.Target>
        <button type="button" className="icon-button" aria-label={`Menu of the chart ${title}`} disabled={expr === null}>
          <IconMenu />
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => move({ ...goTo(here(), "explore", "", expr ?? "") })}>Open the query</Menu.Item>
        <Menu.Item onClick={() => void navigator.clipboard?.writeText(expr ?? "")}>Copy the query</Menu.Item>
        <Menu.Item onClick={() => save(`${title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}.csv`, "text/csv", csv())}>Save as CSV</Menu.Item>
        <Menu.Item onClick={() => (document.fullscreenElement ? void document.exitFullscreen() : void box.current?.requestFullscreen())}>Full screen, or back</Menu.Item>
        <Menu.Item onClick={explain}>Explain this window</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

/** Hands the reader a file. */
export function save(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  URL.revokeObjectURL(url);
}
