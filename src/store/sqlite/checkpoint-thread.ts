// The thread that brings the write-ahead log into the file. See wal-checkpointer.ts.
import { parentPort, workerData } from 'node:worker_threads'
import { openSqliteConnection } from './connection.ts'
import { isDiskError, translateSqliteError } from './errors.ts'
import type { CheckpointCommand, CheckpointReply } from './wal-checkpointer.ts'

const OPEN_MS = 4000
/** How long a log that is to be begun anew waits for those who still read from it: all who write wait for it. */
const READERS_MS = 20

const port = parentPort
if (!port) throw new Error('this is the entry of a thread')
const path = String(workerData)
const connection = openSqliteConnection(path, OPEN_MS)
connection.query(`pragma busy_timeout = ${READERS_MS}`, [])

port.on('message', (order: CheckpointCommand) => {
  if (order === 'end') {
    connection.close()
    port.close()
  } else port.postMessage(done(order))
})

function done(order: CheckpointCommand): CheckpointReply {
  try {
    if (order === 'restart') connection.restartWal()
    else connection.checkpointWal()
  } catch (error) {
    // What is busy or full is tried again after a later commit.
    const told = translateSqliteError(path, error)
    if (isDiskError(error)) return { failed: told instanceof Error ? told.message : String(told) }
  }
  return {}
}
