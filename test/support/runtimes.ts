// A runtime with the settings of a test, on its own tool socket.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { systemClock } from '../../src/lib/clock.ts'
import { readSettings, sourceOf } from '../../src/lib/settings.ts'
import { openRuntimes } from '../../src/runtimes/index.ts'
import { RunFault, type Runtime } from '../../src/runtimes/runtime.ts'
import { RUNTIME_SETTINGS, type RuntimeName } from '../../src/runtimes/settings.ts'
import { agentDir } from './agent-files.ts'
import { type CellNetworkOptions, cellNetwork } from './cell-network.ts'

export interface OpenRuntimeOptions extends CellNetworkOptions {
  /** Hosts that runs may connect to. */
  readonly allow?: readonly string[]
  /** The directory of all workspaces. */
  readonly groups?: string
  readonly chats?: string
  readonly root?: string
  warn?(sentence: string): void
}

export async function openRuntime(
  t: TestContext,
  runtime: RuntimeName,
  settings: Readonly<Record<string, string>> = {},
  {
    allow = [],
    groups = agentDir(t),
    chats = '/nowhere',
    root,
    warn = (sentence) => assert.fail(sentence),
    ...network
  }: OpenRuntimeOptions = {},
): Promise<Runtime> {
  const source = sourceOf('the test', new Map(Object.entries({ SANDBOX: 'none', ...settings })))
  const runtimes = await openRuntimes({
    settings: readSettings(RUNTIME_SETTINGS, [source]),
    clock: systemClock,
    groups,
    chats,
    files: '/nowhere',
    root,
    network: await cellNetwork(t, allow, network),
    warn,
  })
  t.after(() => runtimes.close())
  return runtimes.runtimeFor({ runtime })
}

/** For assert.rejects. */
export function isRunFault(kind: RunFault['kind'], words: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof RunFault, String(error))
    assert.match(error.message, words)
    assert.equal(error.kind, kind)
    return true
  }
}
