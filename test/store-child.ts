// A child process for tests of the store: `node store-child.ts <mode> <address> [argument…]`, with the address as JSON.
import { DatabaseSync } from 'node:sqlite'
import { type OpenHost, openHost } from '../src/daemons/process/host.ts'
import { Refusal } from '../src/lib/refusal.ts'
import { callVerb } from '../src/registry/call.ts'
import { groupsResource } from '../src/resources/groups.ts'
import { routeTokensResource } from '../src/resources/route-tokens.ts'
import type { StoreAddress } from '../src/store/index.ts'

const CONCURRENCY = 16

const modes: Record<string, (address: StoreAddress, ...rest: string[]) => Promise<unknown>> = {
  /** Opens the instance and closes it. */
  open: async (address) => {
    await (await open(address)).close()
    return 'opened'
  },

  /** Adds a group and mints links for it, several at a time, like a server. */
  mint: async (address, folder = '', count = '') => {
    const host = await open(address)
    const context = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
    await callVerb(context, groupsResource.verbs.add, { folder })
    let next = 0
    const client = async (): Promise<void> => {
      while (next < Number(count)) {
        const input = { target_folder: folder, source_label: 'test', jid_suffix: `${next++}` }
        await callVerb(context, routeTokensResource.verbs.issue_hook, input)
      }
    }
    await Promise.all(Array.from({ length: CONCURRENCY }, client))
    await host.close()
    return next
  },

  /** Keeps the write lock until the parent sends a line. */
  lock: async (address) => {
    if (!('path' in address)) throw new Error('only SQLite has this lock')
    const db = new DatabaseSync(address.path, { timeout: 60_000 })
    db.exec('begin immediate')
    print('locked')
    await readLine()
    db.exec('commit')
    db.close()
    return 'released'
  },
}

function open(address: StoreAddress): Promise<OpenHost> {
  return openHost({ instance: 'test', store: address, webBase: 'http://localhost' })
}

function print(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`)
}

function readLine(): Promise<void> {
  return new Promise((resolve) => process.stdin.once('data', () => resolve()))
}

const [mode = '', address = '', ...rest] = process.argv.slice(2)
const work = modes[mode]
if (!work) throw new Error(`unknown mode: ${mode}`)
// Wait for the parent, so that many processes start at the same moment, after loading their modules.
print('ready')
await readLine()
try {
  print(await work(JSON.parse(address), ...rest))
} catch (error) {
  print({ failed: error instanceof Refusal ? `${error.code}: ${error.message}` : String(error) })
}
process.stdin.destroy()
