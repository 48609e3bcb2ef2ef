// The writer thread of a full-text index, started by `full-text.ts`.
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { lowerPriority } from '../../lib/thread-priority.ts'
import { FullTextFile, isDiskFull } from './full-text-file.ts'
import type { IndexCommand, IndexReply } from './full-text-protocol.ts'

function runCommand(file: FullTextFile, command: Exclude<IndexCommand, { kind: 'close' }>): string {
  switch (command.kind) {
    case 'mark':
      return file.mark()
    case 'reset':
      return file.reset()
    case 'update':
      return file.update(command.update)
    case 'replace':
      return file.replaceDamaged(command.damagedInode)
  }
}

function serve(port: MessagePort, path: string): void {
  let file: FullTextFile | undefined
  port.on('message', (command: IndexCommand) => {
    if (command.kind === 'close') {
      file?.close()
      port.close()
      return
    }
    try {
      file ??= new FullTextFile(path)
      port.postMessage({ mark: runCommand(file, command) } satisfies IndexReply)
    } catch (error) {
      // The next command opens the file again, and replaces it if it is damaged.
      file?.close()
      file = undefined
      const reason = error instanceof Error ? error.message : String(error)
      const message = isDiskFull(error) ? 'the disk is full; the index is updated again when there is space' : reason
      port.postMessage({ error: message } satisfies IndexReply)
    }
  })
}

if (!parentPort) throw new Error('full-text-thread must run as a worker thread')
lowerPriority()
// Set by `FullTextIndex`.
serve(parentPort, (workerData as { path: string }).path)
