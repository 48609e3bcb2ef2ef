// Baseline of adapters: asks a Bot API server for updates, and inserts each into a SQLite file, whose write is on the disk, before it
// asks for the next ones. Arguments: base URL, file.
import { DatabaseSync } from 'node:sqlite'

const [, , url = '', file = ''] = process.argv
const store = new DatabaseSync(file)
store.exec('pragma journal_mode = wal; pragma synchronous = full; create table if not exists updates (body text)')
const insert = store.prepare('insert into updates (body) values (?)')
process.stdout.write(`bare ${url}\nready\n`)
process.on('SIGTERM', () => process.exit())
let offset = 0
for (;;) {
  const body = JSON.stringify({ offset, limit: 100, timeout: 50 })
  const response = await fetch(`${url}/bot1:bare/getUpdates`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  const { result } = (await response.json()) as { result: { update_id: number }[] }
  for (const update of result) {
    insert.run(JSON.stringify(update))
    offset = update.update_id + 1
  }
}
