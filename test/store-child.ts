// A process of its own for the tests of the store: `node store-child.ts <mode> <address> [argument…]`, address as JSON.
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

  /** Adds a group and mints so many links for it, some at a time, as an ordinary server would. */
  mint: async (address, folder = '', count = '') => {
    const host = await open(address)
    const asking = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
    await callVerb(asking, groupsResource.verbs.add, { folder })
    let next = 0
    const client = async (): Promise<void> => {
      while (next < Number(count)) {
        const input = { target_folder: folder, source_label: 'test', jid_suffix: `${next++}` }
        await callVerb(asking, routeTokensResource.verbs.issue_hook, input)
      }
    }
    await Promise.all(Array.from({ length: CONCURRENCY }, client))
    await host.close()
    return next
  },

  /** Holds the write lock until it is told to go. */
  hold: async (address) => {
    if (!('path' in address)) throw new Error('only a file has such a lock')
    const db = new DatabaseSync(address.path, { timeout: 60_000 })
    db.exec('begin immediate')
    say('held')
    await told()
    db.exec('commit')
    db.close()
    return 'released'
  },
}

function open(address: StoreAddress): Promise<OpenHost> {
  return openHost({ instance: 'test', store: address, webBase: 'http://localhost' })
}

function say(what: unknown): void {
  process.stdout.write(`${JSON.stringify(what)}\n`)
}

function told(): Promise<void> {
  return new Promise((resolve) => process.stdin.once('data', () => resolve()))
}

const [mode = '', address = '', ...rest] = process.argv.slice(2)
const work = modes[mode]
if (!work) throw new Error(`no such mode: ${mode}`)
// So that many processes begin at the same moment, and not when their modules happen to be loaded.
say('ready')
await told()
try {
  say(await work(JSON.parse(address), ...rest))
} catch (error) {
  say({ failed: error instanceof Refusal ? `${error.code}: ${error.message}` : String(error) })
}
process.stdin.destroy()
