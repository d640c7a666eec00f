// Processes and containers as a live table, and the page of one process.
import { lazy } from "react";
import { tabOf, Tabs } from "../frame/tabs";
import { Containers } from "../process/containers";
import { ProcessTable } from "../process/table";
import { Work } from "../process/work";
import "../process/process.css";
import { usePlace } from "../state/use-place";

const ProcessPage = lazy(() => import("../process/page"));

const kinds = { processes: "Processes", containers: "Containers" };

export default function Processes() {
  const place = usePlace();
  const kind = tabOf(kinds, place);
  if (place.subject !== "" && kind === "processes") return <ProcessPage key={place.subject} name={place.subject} />;
  return (
    <>
      <Tabs label="What is listed" tabs={kinds} current={kind} also={{ subject: "", sort: "" }} />
      {kind === "containers" ? (
        <Containers />
      ) : (
        <ProcessTable below={<Work />} />
      )}
    </>
  );
}
