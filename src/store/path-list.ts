// Lists the paths that occur in an indexed column, such as the folders that have messages.
import type { Tx, Value } from './engine.ts'
import { subtree } from './sql-conditions.ts'
import { query, text } from './statement.ts'

export interface PathRequest {
  readonly table: string
  /** The first column of an index. */
  readonly column: string
  /** Only these paths and those below them. */
  readonly roots: readonly string[]
  readonly max: number
}

/** Undefined if there are more than `max`. One step in the index per path; `distinct` would read all rows of each. */
export async function listPaths(tx: Tx, { table, column, roots, max }: PathRequest): Promise<string[] | undefined> {
  const paths = new Set<string>()
  const next = async (condition: string, values: readonly Value[]): Promise<string | undefined> => {
    const sql = `select ${column} as path from ${table} where ${condition} order by ${column} limit 1`
    const [row] = await query(tx, { path: text }, sql, values)
    if (row) paths.add(row.path)
    return row?.path
  }
  for (const root of roots) {
    const [at, from, to] = subtree(root)
    await next(`${column} = $1`, [at])
    for (let path: string | undefined = from; path !== undefined && paths.size <= max; )
      path = await next(`${column} > $1 and ${column} < $2`, [path, to])
  }
  return paths.size > max ? undefined : [...paths]
}
