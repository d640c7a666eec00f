// The machines to choose from.
import { useState } from "react";
import { asking, getDocument } from "../api/client";
import { useResource } from "../api/resource";
import type { FleetPage, FleetRow } from "../api/types";
import { goTo } from "../state/place";
import { here } from "../state/use-place";
import { healthWords, machineOf, nameOf, teeWords } from "../words/fleet";
import { Chooser, type Choice } from "./chooser";

/** Further machines are found by typing. */
const most = 12;

export default function MachineList({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const name = asking("machines", { text: text.trim(), sort: "name", limit: most });
  const found = useResource<FleetPage>(name, (s) => getDocument(name, s));
  const p = here();
  const list = found.data;
  const page = p.page === "fleet" ? "now" : p.page;
  const choice = (r: FleetRow): Choice => ({
    kind: [r.own ? "this monitor's" : "", teeWords(r.tee), healthWords[r.health]].filter(Boolean).join(", "),
    text: nameOf(r),
    to: { ...goTo(p, page), machine: machineOf(r) },
    current: r.own ? p.machine === null : r.job === p.machine?.job && r.instance === p.machine?.instance,
  });
  const choices = (list?.machines ?? []).map(choice);
  if (list && text === "") choices.push({ kind: "page", text: `All ${list.all} machines`, to: goTo(p, "fleet") });
  const none = found.error ?? (list ? "No machine with that name." : "Loading the machines.");
  return <Chooser label="Machine" field="Name of a machine" text={text} setText={setText} choices={choices} none={none} close={close} />;
}
