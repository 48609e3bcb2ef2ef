// A search process, started by `search-process-pool.ts` with the path of the index.
import type { FullTextQuery, FullTextReply } from './full-text-protocol.ts'
import { FullTextReader } from './full-text-reader.ts'

const reader = new FullTextReader(process.argv[2] ?? '')

function search(query: FullTextQuery): FullTextReply {
  try {
    return reader.find(query)
  } catch (error) {
    reader.close()
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

// A terminal sends Ctrl-C to this process too, but the parent decides when it ends.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {})
process.on('message', (query: FullTextQuery) => process.send?.(search(query)))
process.on('disconnect', () => process.exit())
