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

  /** Adds a group and mints `count` links for it, concurrently, as a server does. */
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

  /** Holds the write lock until the parent writes to stdin. */
  hold: async (address) => {
    if (!('path' in address)) throw new Error('only a SQLite file has a write lock')
    const db = new DatabaseSync(address.path, { timeout: 60_000 })
    db.exec('begin immediate')
    report('held')
    await nextInput()
    db.exec('commit')
    db.close()
    return 'released'
  },
}

function open(address: StoreAddress): Promise<OpenHost> {
  return openHost({ instance: 'test', store: address, webBase: 'http://localhost' })
}

function report(what: unknown): void {
  process.stdout.write(`${JSON.stringify(what)}\n`)
}

function nextInput(): Promise<void> {
  return new Promise((resolve) => process.stdin.once('data', () => resolve()))
}

const [mode = '', address = '', ...rest] = process.argv.slice(2)
const work = modes[mode]
if (!work) throw new Error(`no such mode: ${mode}`)
// Many processes start at the same moment, with their modules loaded.
report('ready')
await nextInput()
try {
  report(await work(JSON.parse(address), ...rest))
} catch (error) {
  report({ failed: error instanceof Refusal ? `${error.code}: ${error.message}` : String(error) })
}
process.stdin.destroy()
