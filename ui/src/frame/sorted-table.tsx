// A table sorted by a column of numbers, the largest first. The column is part of the address; rows
// beyond the first ones are shown on demand.
import { useState, type ReactNode } from "react";
import { rawValue, type Unit } from "../format/number";
import { move, usePlace } from "../state/use-place";
import { Sentence } from "../words/term";

export interface Column<R> {
  /** Its name in the address. */
  key: string;
  title: string;
  unit: Unit;
  value: (row: R) => number | undefined;
  /** The content of the cell. */
  text: (row: R) => string;
  /** What the column means, on hover. */
  hint?: string;
  /** Why a row has no value here, on hover. */
  absent?: string;
}

/** Rows by the column in the address, or by the first one; equal values by the other columns in
 * order, then by name. */
export function useSorted<R>(columns: Column<R>[], rows: R[], nameOf: (row: R) => string): { by: Column<R>; sorted: R[] } {
  const { sort } = usePlace();
  const by = columns.find((c) => c.key === sort) ?? columns[0]!;
  const order = [by, ...columns.filter((c) => c !== by)];
  const compare = (a: R, b: R) => {
    for (const { value } of order) {
      const [x, y] = [value(a) ?? -Infinity, value(b) ?? -Infinity];
      if (x !== y) return y - x;
    }
    return nameOf(a) < nameOf(b) ? -1 : 1;
  };
  return { by, sorted: rows.toSorted(compare) };
}

interface Props<R> {
  id: string;
  label: string;
  /** What the rows are. */
  corner: string;
  columns: Column<R>[];
  by: Column<R>;
  /** Null while loading: then there are as many empty rows as are expected. */
  sorted: R[] | null;
  dimmed?: boolean;
  /** How many rows are shown at once. */
  first: number;
  idOf: (row: R) => string;
  nameOf: (row: R) => string;
  link: (row: R) => ReactNode;
  /** The selected row. */
  current?: string;
  /** Cells with a bar, as wide as their share of the column's largest value. */
  bars?: boolean;
  /** A last column that is not numeric. */
  last?: { title: string; cell: (row: R) => ReactNode };
  /** Below the shown rows. */
  foot?: (shown: R[]) => ReactNode;
  /** Next to the button for all rows. */
  tools?: ReactNode;
}

export function SortedTable<R>({ id, label, corner, columns, by, sorted, dimmed = false, first, idOf, nameOf, link, current, bars = false, last, foot, tools }: Props<R>) {
  const [all, setAll] = useState(false);
  const rows = sorted ?? [];
  const shown = all ? rows : rows.slice(0, first);
  return (
    <div className={dimmed ? "scroll dimmed panel-body" : "scroll panel-body"} tabIndex={0} role="group" aria-label={label} aria-busy={!sorted}>
      <table className="data sorted-table" id={sorted ? id : undefined}>
        <thead>
          <tr>
            <th scope="col">{corner}</th>
            {columns.map((c) => (
              <SortHead key={c.key} title={c.title} hint={c.hint} sort={c === columns[0] ? "" : c.key} sorted={by === c ? "descending" : undefined} className="num" />
            ))}
            {last && (
              <th scope="col" className="wide-only">
                {last.title}
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {!sorted && <Skeleton rows={first} columns={columns.length} last={last !== undefined} />}
          {shown.map((r) => (
            <tr key={idOf(r)} className="link" data-name={nameOf(r)} aria-current={current !== undefined && idOf(r) === current ? "true" : undefined}>
              <th scope="row" title={idOf(r)}>
                {link(r)}
              </th>
              {columns.map((c) => (
                <Cell key={c.key} column={c} row={r} largest={bars ? Math.max(...rows.map((o) => c.value(o) ?? 0)) : 0} />
              ))}
              {last && <td className="wide-only trend">{last.cell(r)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      {foot?.(shown)}
      {(!sorted || rows.length > shown.length || tools) && (
        <div className="row table-foot">
          {rows.length > shown.length && (
            <button type="button" className="text-button" onClick={() => setAll(true)}>
              Show all {rows.length}
            </button>
          )}
          {tools}
        </div>
      )}
    </div>
  );
}

interface HeadProps {
  title: string;
  hint?: string | undefined;
  /** Its name in the address. */
  sort: string;
  /** The order of the rows if they are sorted by this column. */
  sorted?: "ascending" | "descending" | undefined;
  className?: string | undefined;
}

/** The head of a column that sorts the table. */
export function SortHead({ title, hint, sort, sorted, className }: HeadProps) {
  return (
    <th scope="col" className={className} aria-sort={sorted}>
      <button type="button" className="sort" title={hint} onClick={() => move({ sort }, "replace")}>
        <Sentence text={title} />
        {sorted && (sorted === "ascending" ? " ↑" : " ↓")}
      </button>
    </th>
  );
}

/** A number, with space for the bar above it. */
function Cell<R>({ column: c, row, largest }: { column: Column<R>; row: R; largest: number }) {
  const value = c.value(row);
  return (
    <td className={largest > 0 ? "num in-cell" : "num"} title={value === undefined ? c.absent : rawValue(value, c.unit)} data-column={c.key} data-value={value ?? ""}>
      {value !== undefined && largest > 0 && <span className="in-cell-bar" style={{ width: `${(value / largest) * 100}%` }} aria-hidden="true" />}
      <span className={largest > 0 ? "in-cell-text" : undefined}>{c.text(row)}</span>
    </td>
  );
}

function Skeleton({ rows, columns, last }: { rows: number; columns: number; last: boolean }) {
  return Array.from({ length: rows }, (_, i) => (
    <tr key={i} aria-hidden="true">
      <th scope="row">
        <span className="skeleton" />
      </th>
      {Array.from({ length: columns }, (_, k) => (
        <td key={k} className="num">
          <span className="skeleton" />
        </td>
      ))}
      {last && <td className="wide-only trend" />}
    </tr>
  ));
}
