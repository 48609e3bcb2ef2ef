// A process that opens, fills and closes search indexes of a store, one after the other: `<store> <directory>`. Nothing else
// keeps it alive.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { openSearchIndex } from '../../src/core/search/message-search.ts'
import { CommitSignals } from '../../src/lib/commit-signals.ts'
import { openEngine } from '../../src/store/index.ts'

const MOMENTS = 40
const STEP_MS = 3

const [store = '', folder = ''] = process.argv.slice(2)
const engine = await openEngine({ path: store })
for (let moment = 0; moment < MOMENTS; moment++) {
  const path = join(folder, `${moment}`)
  mkdirSync(path)
  const search = openSearchIndex(engine, join(path, 'search.db'))
  search.follow(new CommitSignals())
  await pause(moment * STEP_MS)
  await search.close()
}
await engine.close()
console.log('closed')
