// The thread that fills a full text: the one place that writes its file.
import { parentPort, workerData } from 'node:worker_threads'
import { lowerPriority } from '../../lib/thread-priority.ts'
import type { IndexCommand, IndexReply } from './full-text.ts'
import { FullTextFile, isDiskFull } from './full-text-file.ts'

// Only ever started by a full text, with what that gives it.
const { path } = workerData as { path: string }
const port = parentPort
if (!port) throw new Error('this is the entry of a thread')

lowerPriority()

let file: FullTextFile | undefined

function answerTo(ask: Exclude<IndexCommand, { what: 'end' }>): IndexReply {
  file ??= new FullTextFile(path)
  switch (ask.what) {
    case 'mark':
      return { mark: file.mark() }
    case 'reset':
      return { mark: file.reset() }
    case 'fill':
      return { mark: file.fill(ask.filling) }
    case 'renew':
      return { mark: file.renew(ask.damaged) }
  }
}

port.on('message', (ask: IndexCommand) => {
  if (ask.what === 'end') {
    file?.close()
    port.close()
    return
  }
  try {
    port.postMessage(answerTo(ask))
  } catch (error) {
    // What is on disk is opened anew, and made anew where it is damaged, by whoever asks next.
    file?.close()
    file = undefined
    const reason = error instanceof Error ? error.message : String(error)
    const broken = isDiskFull(error) ? 'the disk is full; it is filled again when there is room' : reason
    port.postMessage({ broken } satisfies IndexReply)
  }
})
