// The actions of a chart: its query, its numbers, its picture, its window.
import { Menu } from "@mantine/core";
import { useState, type RefObject } from "react";
import { IconMenu } from "../frame/icons";
import { copyPicture, copyText, save } from "../state/clipboard";
import { useMachine } from "../state/machine";
import { goTo } from "../state/place";
import { here, move } from "../state/use-place";
import type { Picture } from "./picture";

interface Props {
  title: string;
  /** Null while there is nothing to show. */
  expr: string | null;
  csv: () => string;
  picture: (() => Promise<Picture>) | undefined;
  /** The element to show full screen. */
  box: RefObject<HTMLElement | null>;
}

export function ChartMenu({ title, expr, csv, picture, box }: Props) {
  const { window: w } = useMachine();
  const [said, setSaid] = useState("");
  const say = (text: string) => {
    setSaid(text);
    setTimeout(() => setSaid(""), 4000);
  };
  const name = title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  const explain = () => {
    const place = here();
    const subject = place.page === "processes" ? place.subject : "";
    move({ ...goTo(place, "processes", subject), fixed: { from: w.from, to: w.to } });
  };
  const copyQuery = async () => {
    if (await copyText(expr ?? "")) say("Query copied");
    else window.prompt("This browser does not let the page copy. Copy the query:", expr ?? "");
  };
  const withPicture = (use: (p: Picture) => Promise<void> | void) => () => {
    picture?.().then(use).catch((e: unknown) => say(`No picture: ${e instanceof Error ? e.message : String(e)}`));
  };
  const copyImage = withPicture(async (p) => {
    const png = await p.png();
    if (await copyPicture(png)) return say("Picture copied");
    save(`${name}.png`, png);
    say("This browser does not let the page copy pictures. The picture was saved as PNG instead.");
  });
  return (
    <>
      <span className="said" role="status">
        {said}
      </span>
      {/* Within the panel: what fills the screen hides everything outside of it. */}
      <Menu position="bottom-end" shadow="md" width={190} withinPortal={false}>
        <Menu.Target>
          <button type="button" className="icon-button" aria-label={`Menu of the chart ${title}`} disabled={expr === null}>
            <IconMenu />
          </button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => move({ ...goTo(here(), "explore", "", expr ?? "") })}>Open the query</Menu.Item>
          <Menu.Item onClick={() => void copyQuery()}>Copy the query</Menu.Item>
          <Menu.Item onClick={() => save(`${name}.csv`, new Blob([csv()], { type: "text/csv" }))}>Save as CSV</Menu.Item>
          {picture && (
            <>
              <Menu.Item onClick={copyImage}>Copy as a picture</Menu.Item>
              <Menu.Item onClick={withPicture(async (p) => save(`${name}.png`, await p.png()))}>Save as PNG</Menu.Item>
              <Menu.Item onClick={withPicture((p) => save(`${name}.svg`, new Blob([p.svg], { type: "image/svg+xml" })))}>Save as SVG</Menu.Item>
            </>
          )}
          <Menu.Item onClick={() => (document.fullscreenElement ? void document.exitFullscreen() : void box.current?.requestFullscreen())}>Full screen, or back</Menu.Item>
          <Menu.Item onClick={explain}>Processes in this window</Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </>
  );
}
