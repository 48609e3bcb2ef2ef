// The minimum that a durable store does for a message and its answer: two commits of one row, as durable as those of svc.
import { DatabaseSync } from 'node:sqlite'

export interface TwoCommits {
  /** Returns the milliseconds that it took. */
  write(content: Uint8Array): number
  close(): void
}

export function openTwoCommits(path: string): TwoCommits {
  const db = new DatabaseSync(path)
  db.exec('pragma journal_mode = wal; pragma synchronous = full; create table t (id integer primary key, content blob)')
  const insert = db.prepare('insert into t (content) values (?)')
  return {
    write: (content) => {
      const started = performance.now()
      insert.run(content)
      insert.run(content)
      return performance.now() - started
    },
    close: () => db.close(),
  }
}
