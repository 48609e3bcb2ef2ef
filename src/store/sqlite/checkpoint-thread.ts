// The thread that checkpoints the write-ahead log, started by wal-checkpointer.ts.
import { parentPort, workerData } from 'node:worker_threads'
import { openSqliteConnection } from './connection.ts'
import { isDiskError, translateSqliteError } from './errors.ts'
import type { CheckpointCommand, CheckpointReply } from './wal-checkpointer.ts'

const OPEN_MS = 4000
/** How long a restart waits for readers of the log. All writers wait meanwhile. */
const READERS_MS = 20

const port = parentPort
if (!port) throw new Error('checkpoint-thread must run as a worker thread')
const path = String(workerData)
const connection = openSqliteConnection(path, OPEN_MS)
connection.query(`pragma busy_timeout = ${READERS_MS}`, [])

port.on('message', (command: CheckpointCommand) => {
  if (command === 'close') {
    connection.close()
    port.close()
  } else port.postMessage(runCommand(command))
})

function runCommand(command: Exclude<CheckpointCommand, 'close'>): CheckpointReply {
  try {
    connection.checkpoint(command)
  } catch (error) {
    // After other errors (busy, full) a later commit retries.
    const translated = translateSqliteError(path, error)
    if (isDiskError(error)) return { error: translated instanceof Error ? translated.message : String(translated) }
  }
  return {}
}
