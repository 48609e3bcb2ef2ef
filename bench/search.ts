// find_messages over a million messages, against the bare FTS5 query on the same file.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { groups } from '../src/core/groups/groups.ts'
import { layout } from '../src/core/layout.ts'
import { type OpenHost, openHost } from '../src/daemons/process/host.ts'
import { standaloneTools } from '../src/faces/tool-list.ts'
import { Refusal } from '../src/lib/refusal.ts'
import type { RequestContext } from '../src/registry/context.ts'
import type { Tool } from '../src/registry/tool.ts'
import { searchTools } from '../src/tools/search.ts'
import { median, type Result } from './result.ts'

const MESSAGES = 1_000_000
const FOLDERS = 100
const ROUNDS = 15
const WARM = 3

/** Words of different frequency: `f<n>` is in one of 50 messages, `m<n>` in one of 1,000. */
const QUERIES: Record<string, string> = {
  'a word of 20,000': 'f50',
  'a word of 1,000': 'm1000',
  'two words': 'f50 AND m1000',
  'a phrase': '"f50 m7"',
  'a prefix': 'm100*',
}

/** Finds the same rows in the same index; the tool also checks access, updates the index and uses a thread. */
const bareSql = (folder: string): string =>
  folder === 'main'
    ? `select rowid, rank, ${SNIPPET} from words where words match ? order by rank limit 20`
    : `select d.key, rank, ${SNIPPET} from words cross join documents d on d.key = -words.rowid
       where words match ? and d.path = '${folder}' order by rank limit 20`
const SNIPPET = `snippet(words, 0, '«', '»', '…', 32) as snippet`

function fill(path: string): void {
  const db = new DatabaseSync(path)
  db.exec(`
    begin;
    with recursive n(i) as (select 1 union all select i + 1 from n where i < ${MESSAGES})
    insert into messages (id, jid, target_folder, direction, kind, sender, content, created_at)
    select 'id-' || i, 'web:team' || (i % ${FOLDERS}), 'team' || (i % ${FOLDERS}), 'in', 'message', 'visitor',
      cast('message of somebody f' || (i % 50 + 1) || ' m' || (i * 7919 % 1000 + 1) || ' about r' || (i * 104729 % 30011) ||
        ' and r' || (i * 15485863 % 30011) || ' with a few more words to it' as blob),
      strftime('%Y-%m-%dT%H:%M:%fZ', 1767225600 + i, 'unixepoch')
    from n;
    update filing set last_seq = ${MESSAGES};
    commit`)
  db.close()
}

/** Searches are refused until the index is built. */
async function buildIndex(tool: Tool, context: RequestContext): Promise<void> {
  for (;;) {
    try {
      await tool.run(context, { query: 'f50' })
      return
    } catch (error) {
      if (!(error instanceof Refusal && error.message.includes('being built'))) throw error
      await pause(100)
    }
  }
}

async function measure(host: OpenHost, tool: Tool, bare: DatabaseSync, folder: string): Promise<Result> {
  const context: RequestContext = { host, caller: { kind: 'agent', folder }, face: 'tool' }
  const statement = bare.prepare(bareSql(folder))
  const figures: { toolMs: number; bareMs: number; text: string }[] = []
  for (const [name, query] of Object.entries(QUERIES)) {
    const rounds: { bare: number; tool: number }[] = []
    for (let round = 0; round < WARM + ROUNDS; round++) {
      const started = performance.now()
      statement.all(query)
      const between = performance.now()
      await tool.run(context, { query })
      if (round >= WARM) rounds.push({ bare: between - started, tool: performance.now() - between })
    }
    const [toolMs, bareMs] = [median(rounds.map(({ tool }) => tool)), median(rounds.map(({ bare }) => bare))]
    figures.push({ toolMs, bareMs, text: `${name} ${toolMs.toFixed(2)} ms (bare ${bareMs.toFixed(2)})` })
  }
  const sum = (of: 'toolMs' | 'bareMs'): number => figures.reduce((all, figure) => all + figure[of], 0)
  return {
    name: `find_messages over ${MESSAGES.toLocaleString('en')} messages, for ${folder === 'main' ? 'the root' : 'a folder'}`,
    ratio: sum('toolMs') / sum('bareMs'),
    goal: 'at most 1.3 for the five together',
    detail: figures.map(({ text }) => text).join('; '),
  }
}

export async function benchSearch(): Promise<Result[]> {
  const root = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const place = { ...layout(root), store: join(root, 'svc.db'), search: join(root, 'search.db') }
  const host = await openHost({
    instance: 'bench',
    store: { path: place.store, create: true },
    secretsKey: 'bench',
    webBase: 'http://localhost',
    layout: place,
  })
  let bare: DatabaseSync | undefined
  try {
    await host.engine.transaction(async (tx) => {
      for (const folder of ['main', ...Array.from({ length: FOLDERS }, (_, index) => `team${index}`)])
        await groups.insert(tx, {
          folder,
          name: folder,
          product: 'assistant',
          open: true,
          added_at: '2026-01-01T00:00:00.000Z',
        })
    })
    fill(place.store)
    const [tool] = standaloneTools(searchTools)
    if (!tool) throw new Error('the search tool is missing')
    await buildIndex(tool, { host, caller: { kind: 'agent', folder: 'main' }, face: 'tool' })
    bare = new DatabaseSync(place.search, { readOnly: true })
    return [await measure(host, tool, bare, 'main'), await measure(host, tool, bare, 'team7')]
  } finally {
    bare?.close()
    await host.close()
    rmSync(root, { recursive: true, force: true })
  }
}
