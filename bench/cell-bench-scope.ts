// Opens instances of two versions of svc: this checkout, and the last commit in which a cell shared the network and the
// user of svc.
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import type { Version } from './baseline.ts'
import { BenchScope } from './bench-scope.ts'
import type { Instance } from './instance.ts'

export const BASELINE = '3a08524'
export const NAMES = ['now', 'before'] as const
export type Name = (typeof NAMES)[number]

const SETTINGS = { SANDBOX: 'bwrap', AGENT_RUNTIME: 'command', AGENT_COMMAND: 'cat >/dev/null; echo ok' }

/** Its folders are accessible to the user that agents run as. */
export class CellBenchScope extends BenchScope {
  constructor() {
    super()
    chmodSync(this.root, 0o711)
  }

  async openInstance(
    { openBenchInstance }: Pick<Version, 'openBenchInstance'>,
    name: string,
    settings: Readonly<Record<string, string>> = {},
  ): Promise<Instance> {
    const folder = join(this.root, name)
    const instance = await openBenchInstance(folder, { ...SETTINGS, ...settings })
    chmodSync(folder, 0o711)
    return instance
  }
}
