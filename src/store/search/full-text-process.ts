// The process that searches a full text for `search-process-pool.ts`, its parent: `<file>`.
import type { FullTextQuery, FullTextReply } from './full-text.ts'
import { FullTextReader } from './full-text-reader.ts'

const reader = new FullTextReader(process.argv[2] ?? '')

function answerTo(question: FullTextQuery): FullTextReply {
  try {
    return reader.find(question)
  } catch (error) {
    reader.close()
    return { broken: error instanceof Error ? error.message : String(error) }
  }
}

// A terminal sends Ctrl-C to this process, too; its parent decides when it ends.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {})
process.on('message', (question: FullTextQuery) => process.send?.(answerTo(question)))
process.on('disconnect', () => process.exit())
