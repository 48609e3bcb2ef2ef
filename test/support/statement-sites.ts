// Finds every call in src/ that runs SQL, and records which of them were executed.
import { readFileSync } from 'node:fs'
import { glob } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { RunningTx } from '../../src/store/running-transaction.ts'
import { SqliteConnection } from '../../src/store/sqlite/connection.ts'

const ROOT_URL = new URL('../../', import.meta.url).href
const ROOT = fileURLToPath(ROOT_URL)
const FUNCTIONS = ['query', 'queryOne', 'queryForValues', 'execute']
const METHODS = ['run', 'insertReturningIds']

export interface StatementSite {
  /** `path:line` of the called name. */
  readonly at: string
  readonly code: string
}

export async function findStatementSites(): Promise<StatementSite[]> {
  const sites: StatementSite[] = []
  for await (const path of glob('src/**/*.ts', { cwd: ROOT })) {
    if (path.startsWith('src/store/') || /\.(test|contract)\.ts$/.test(path)) continue
    const text = readFileSync(join(ROOT, path), 'utf8')
    if (!/(statement\.ts'|executeQuery)/.test(text)) continue
    const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest)
    const multiRow = new Set([...text.matchAll(/const (\w+) = new MultiRowStatement\(/g)].map(([, name]) => name))
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node)) {
        const name = calledName(node.expression, multiRow)
        const line = name && file.getLineAndCharacterOfPosition(name.getStart(file)).line + 1
        if (line !== undefined) sites.push({ at: `${path}:${line}`, code: node.getText(file) })
      }
      ts.forEachChild(node, visit)
    }
    visit(file)
  }
  return sites
}

function calledName(called: ts.Expression, multiRow: ReadonlySet<unknown>): ts.Node | undefined {
  if (ts.isIdentifier(called)) return FUNCTIONS.includes(called.text) ? called : undefined
  if (!ts.isPropertyAccessExpression(called)) return undefined
  if (called.name.text === 'executeQuery') return called.name
  const owner = ts.isIdentifier(called.expression) ? called.expression.text : undefined
  const isMultiRow = multiRow.has(owner) && METHODS.includes(called.name.text)
  return isMultiRow ? called.name : undefined
}

/** Records the call sites, as `path:line`, of the statements that succeed in this process from now on. */
export function recordStatementSites(t: { after(then: () => void): void }): ReadonlySet<string> {
  const reached = new Set<string>()
  const { executeQuery } = RunningTx.prototype
  const { runEach } = SqliteConnection.prototype
  t.after(() => {
    RunningTx.prototype.executeQuery = executeQuery
    SqliteConnection.prototype.runEach = runEach
  })
  RunningTx.prototype.executeQuery = async function (query) {
    const site = callSite()
    const result = await executeQuery.call(this, query)
    reached.add(site)
    return result
  }
  SqliteConnection.prototype.runEach = function (sql, rows) {
    const results = runEach.call(this, sql, rows)
    reached.add(callSite())
    return results
  }
  return reached
}

/** The first stack frame in src/ outside the store. */
function callSite(): string {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 20
  const frames = new Error().stack?.split('\n') ?? []
  Error.stackTraceLimit = stackTraceLimit
  for (const frame of frames) {
    const [, path = '', line] = /(file:\S+?):(\d+):\d+\)?$/.exec(frame) ?? []
    if (path.startsWith(`${ROOT_URL}src/`) && !path.startsWith(`${ROOT_URL}src/store/`))
      return `${path.slice(ROOT_URL.length)}:${line}`
  }
  return ''
}
