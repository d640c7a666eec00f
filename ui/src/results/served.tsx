// The tables of a result that the server computes from its runs, as in reports.
import { useState } from "react";
import { getDocument } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import type { ReportCell, ReportSectionTable, Tables } from "../api/types";
import { Problem } from "../frame/problem";
import { firstSentence } from "../words/empty";
import { viewCall } from "./drawings";
import { ArmName } from "./marks";
import { Table } from "./tables";

// The rows of a long table that are shown at first.
const first = 10;

export function useTables(document: string, kase: string, metric: string): Resource<Tables> {
  const call = viewCall(document, "tables", kase, metric);
  return useResource<Tables>(call, (s) => getDocument(call, s));
}

export function tablesOf(tables: Resource<Tables>, section: string): ReportSectionTable[] {
  return (tables.data?.tables ?? []).filter((t) => t.section === section);
}

/** The tables of a section, or the text to show without one. */
export function ServedTables({ tables, section, envs, none, headed }: { tables: Resource<Tables>; section: string; envs: string[]; none?: string; headed?: boolean }) {
  const shown = tablesOf(tables, section);
  if (tables.error && !tables.data) return <Problem message={tables.error} retry={tables.retry} />;
  if (shown.length === 0) return none && tables.data ? <p className="dim">{none}</p> : null;
  return shown.map((t) => <ServedTable key={t.caption} table={t} envs={envs} headed={headed || shown.length > 1} />);
}

function ServedTable({ table, envs, headed }: { table: ReportSectionTable; envs: string[]; headed: boolean }) {
  const [all, setAll] = useState(false);
  const rows = table.rows ?? [];
  const columns = table.columns ?? [];
  const shown = table.long && !all ? rows.slice(0, first) : rows;
  const { first: title, rest } = firstSentence(table.caption);
  const name = title.replace(/\.$/, "");
  const arm = (text: string) => (envs.includes(text) ? <ArmName name={text} index={envs.indexOf(text)} /> : null);
  return (
    <>
      {headed && <h3>{name}</h3>}
      {rest !== "" && <p className="note">{rest}</p>}
      <Table name={name} columns={columns.map((c, i) => ({ key: `${i}`, head: arm(c) ?? upper(c), number: table.numbers?.[i] ?? false }))}>
        {shown.map((row, r) => (
          <tr key={r}>
            {row.map((cell, i) =>
              i === 0 ? (
                <th key={i} scope="row">
                  {(columns[i] === "environment" && arm(cell.text)) || cell.text}
                </th>
              ) : (
                <td key={i} className={[table.numbers?.[i] && "num", cell.reason && "missing"].filter(Boolean).join(" ") || undefined} title={cell.raw || cell.reason}>
                  {(columns[i] === "environment" && arm(cell.text)) || cell.text}
                  <Mark table={table} cell={cell} />
                </td>
              ),
            )}
          </tr>
        ))}
      </Table>
      {table.footnotes?.map((n) => (
        <p key={n.mark} className="note">
          [{n.mark}] missing: {n.reason}
        </p>
      ))}
      {rows.length > shown.length && (
        <p className="note">
          {rows.length - shown.length} more changed less, or counted nothing.{" "}
          <button type="button" className="text-button" onClick={() => setAll(true)}>
            Show all {rows.length}
          </button>
        </p>
      )}
    </>
  );
}

/** The mark of the footnote with the reason for a missing value. */
function Mark({ table, cell }: { table: ReportSectionTable; cell: ReportCell }) {
  const note = table.footnotes?.find((n) => n.reason === cell.reason);
  return note ? <span className="small"> [{note.mark}]</span> : null;
}

function upper(s: string): string {
  return s.slice(0, 1).toUpperCase() + s.slice(1);
}
