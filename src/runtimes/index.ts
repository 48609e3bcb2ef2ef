// The list of runtimes. Each is loaded only when it is to run.
import type { Clock } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'
import { openCell } from './cell.ts'
import type { Runtime } from './runtime.ts'
import { RUNTIME_NAMES, type RuntimeName, type RuntimeSettings } from './settings.ts'
import type { Setup } from './setup.ts'

const runtimes: Readonly<Record<RuntimeName, (setup: Setup) => Promise<Runtime>>> = {
  demo: async (setup) => (await import('./demo/runtime.ts')).openDemo(setup),
  command: async (setup) => (await import('./command/runtime.ts')).openCommand(setup),
  claude: async (setup) => (await import('./claude/runtime.ts')).openClaude(setup),
  openai: async (setup) => (await import('./openai/runtime.ts')).openOpenai(setup),
}

const AHEAD_MS = 1000

export interface Runtimes {
  /** The one that a group's `config` names, else the instance's; opened when first asked for. */
  runtimeFor(config?: Readonly<Record<string, unknown>>): Promise<Runtime>
  /** Ends every process of theirs. */
  close(): Promise<void>
}

export interface Opening {
  readonly settings: RuntimeSettings
  readonly clock: Clock
  warn(sentence: string): void
}

export async function openRuntimes({ settings, clock, warn }: Opening): Promise<Runtimes> {
  const paths = settings.SANDBOX_PATHS.split(':').filter(Boolean)
  const cell = await openCell(settings.SANDBOX, paths, warn)
  const opened = new Map<RuntimeName, Promise<Runtime>>()
  const open = (name: RuntimeName): Promise<Runtime> => {
    const opening = opened.get(name) ?? runtimes[name]({ settings, cell, clock })
    opened.set(name, opening)
    return opening
  }
  // Ahead of the first message, but not in the way of the start.
  const ahead = setTimeout(() => void open(settings.AGENT_RUNTIME).catch(() => undefined), AHEAD_MS).unref()
  return {
    runtimeFor: async (config) => open(nameOf(config?.runtime ?? settings.AGENT_RUNTIME)),
    close: async () => {
      clearTimeout(ahead)
      for (const opening of opened.values()) await (await opening).close()
    },
  }
}

function nameOf(value: unknown): RuntimeName {
  const name = RUNTIME_NAMES.find((known) => known === value)
  return name ?? refuse('invalid', `${JSON.stringify(value)} is no runtime: it is one of ${RUNTIME_NAMES.join(', ')}`)
}
