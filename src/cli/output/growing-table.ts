// Prints a table to which rows are appended while a command runs.
import type { PrintedTable, Printer } from '../../lib/command-line/print.ts'

/** Prints the header once; with --json, one line per row. */
export function growingTablePrinter<T>(
  print: Printer,
  makeTable: (rows: readonly T[]) => PrintedTable<T>,
): (rows: readonly T[]) => void {
  let hasHeader = false
  return (rows) => {
    if (print.json) for (const row of rows) print.line(JSON.stringify(row))
    else if (rows.length > 0) print.table({ ...makeTable(rows), ...(hasHeader ? { header: false } : {}) })
    hasHeader ||= rows.length > 0
  }
}
