// Opens the runtimes that settings.ts names. Each is loaded only when it is to run.
import { extname } from 'node:path'
import type { Cell } from '../cell/cell.ts'
import type { Network } from '../cell/network.ts'
import { openCell } from '../cell/open-cell.ts'
import { agentUser } from '../core/agent-user.ts'
import type { Clock } from '../lib/clock.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { RunFault, type Runtime } from './runtime.ts'
import type { RuntimeContext } from './runtime-context.ts'
import { RUNTIME_NAMES, type RuntimeName, type RuntimeSettings } from './settings.ts'

/** What `runtime.ts` of each runtime exports. */
interface RuntimeModule {
  openRuntime(context: RuntimeContext): Promise<Runtime>
}

/** As source or as compiled code, like this file. */
async function load(name: RuntimeName): Promise<RuntimeModule> {
  return import(new URL(`./${name}/runtime${extname(import.meta.url)}`, import.meta.url).href)
}

const AHEAD_MS = 1000

export interface Runtimes {
  /**
   * The one that a group's `config` names, else the instance's; opened when first asked for. With other `settings` than before
   * all are opened anew, and what was warm ends when its runs are over.
   */
  runtimeFor(config?: Readonly<Record<string, unknown>>, settings?: RuntimeSettings): Promise<Runtime>
  /** Ends every process of theirs. */
  close(): Promise<void>
}

export interface RuntimesOptions {
  readonly settings: RuntimeSettings
  readonly clock: Clock
  /** The directory of all workspaces, and that of visitors' chats. */
  readonly groups: string
  readonly chats: string
  readonly network: Network
  warn(sentence: string): void
  onBackgroundError?(error: unknown): void
}

export async function openRuntimes(opening: RuntimesOptions): Promise<Runtimes> {
  const { settings, clock, groups, chats, network, warn } = opening
  const user = agentUser(settings.AGENT_UID)
  const onBackgroundError = (error: unknown): void => opening.onBackgroundError?.(error)
  const cells = new SharedCell(() => openCell({ settings, groups, chats }), warn)
  const open = async (name: RuntimeName, settings: RuntimeSettings): Promise<Runtime> => {
    const { openRuntime } = await load(name)
    return openRuntime({ settings, clock, user, cell: () => cells.open(), network, warn, onBackgroundError })
  }
  let current = new RuntimeSet(settings, open)
  const retiring = new Set<Promise<void>>()
  const currentWith = (now: RuntimeSettings): RuntimeSet => {
    if (now === current.settings) return current
    const closing = current.retire().catch(onBackgroundError)
    retiring.add(closing)
    void closing.then(() => retiring.delete(closing))
    current = new RuntimeSet(now, open)
    return current
  }
  // The demo needs none.
  if (settings.AGENT_RUNTIME !== 'demo') void cells.open().catch(() => undefined)
  // Ahead of the first message, but not in the way of the start.
  const ahead = setTimeout(
    () => void current.open(current.settings.AGENT_RUNTIME).catch(() => undefined),
    AHEAD_MS,
  ).unref()
  return {
    runtimeFor: async (config, now = current.settings) =>
      currentWith(now).open(nameOf(config?.runtime ?? now.AGENT_RUNTIME)),
    close: async () => {
      clearTimeout(ahead)
      await current.close()
      await Promise.all(retiring)
      await cells.close()
    },
  }
}

/** The runtimes that were opened with the same settings. */
class RuntimeSet {
  readonly settings: RuntimeSettings
  readonly #open: (name: RuntimeName, settings: RuntimeSettings) => Promise<Runtime>
  readonly #opened = new Map<RuntimeName, Promise<Runtime>>()
  readonly #running = new Set<Promise<unknown>>()

  constructor(settings: RuntimeSettings, open: (name: RuntimeName, settings: RuntimeSettings) => Promise<Runtime>) {
    this.settings = settings
    this.#open = open
  }

  open(name: RuntimeName): Promise<Runtime> {
    const opening = this.#opened.get(name) ?? this.#open(name, this.settings).then((runtime) => this.#watched(runtime))
    this.#opened.set(name, opening)
    return opening
  }

  async close(): Promise<void> {
    for (const opening of this.#opened.values()) await (await opening).close()
  }

  /** Closes when the runs under way are over. */
  async retire(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running)
    await this.close()
  }

  #watched(runtime: Runtime): Runtime {
    return {
      ...runtime,
      run: (job) => {
        const running = runtime.run(job).finally(() => this.#running.delete(running))
        this.#running.add(running)
        return running
      },
    }
  }
}

/** How long after cells did not work they are tried again: the operator may have installed what was missing. */
const AGAIN_MS = 10_000

/** The cell of all runs, opened when the first of them needs it. */
class SharedCell {
  readonly #open: () => Promise<Cell>
  readonly #warn: (sentence: string) => void
  #opening: Promise<Cell> | undefined
  #said = ''

  constructor(open: () => Promise<Cell>, warn: (sentence: string) => void) {
    this.#open = open
    this.#warn = warn
  }

  open(): Promise<Cell> {
    this.#opening ??= this.#attempt()
    return this.#opening
  }

  async close(): Promise<void> {
    await this.#opening?.then(
      (cell) => cell.close(),
      () => undefined,
    )
  }

  async #attempt(): Promise<Cell> {
    try {
      return await this.#open()
    } catch (error) {
      setTimeout(() => {
        this.#opening = undefined
      }, AGAIN_MS).unref()
      if (!(error instanceof Refusal)) throw error
      const sentence = `agents cannot run: ${error.message}; ${error.hint ?? 'svc doctor says more'}`
      if (sentence !== this.#said) this.#warn(sentence)
      this.#said = sentence
      throw new RunFault('terminal', sentence)
    }
  }
}

function nameOf(value: unknown): RuntimeName {
  const name = RUNTIME_NAMES.find((known) => known === value)
  return name ?? refuse('invalid', `${JSON.stringify(value)} is no runtime: it is one of ${RUNTIME_NAMES.join(', ')}`)
}
