// Opens the runtimes listed in settings.ts. Each module is loaded when its runtime is first used.
import { dirname, extname } from 'node:path'
import type { Cell } from '../cell/cell.ts'
import type { Network } from '../cell/network.ts'
import { openCell } from '../cell/open-cell.ts'
import { agentUsers } from '../core/agent-user.ts'
import type { Clock } from '../lib/clock.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { RunFault, type Runtime } from './runtime.ts'
import type { RuntimeContext } from './runtime-context.ts'
import { RUNTIME_NAMES, type RuntimeName, type RuntimeSettings } from './settings.ts'

/** The exports of each `<name>/runtime.ts`. */
interface RuntimeModule {
  openRuntime(context: RuntimeContext): Promise<Runtime>
}

/** Loads source or compiled code, whichever this file is. */
async function load(name: RuntimeName): Promise<RuntimeModule> {
  return import(new URL(`./${name}/runtime${extname(import.meta.url)}`, import.meta.url).href)
}

const WARM_UP_DELAY_MS = 1000

export interface Runtimes {
  /**
   * Returns the runtime that a group's `config` names, or else the instance's, and opens it on first use. When `settings`
   * differ from the last call, all runtimes are reopened; the old ones close after their runs end.
   */
  runtimeFor(config?: Readonly<Record<string, unknown>>, settings?: RuntimeSettings): Promise<Runtime>
  /** Stops all processes of all runtimes. */
  close(): Promise<void>
}

interface RuntimesOptions {
  readonly settings: RuntimeSettings
  readonly clock: Clock
  /** The directory of all workspaces. */
  readonly groups: string
  /** The directory of visitors' chats. */
  readonly chats: string
  /** The directory of files in chats. */
  readonly files: string
  /** The data directory. */
  readonly root?: string | undefined
  readonly network: Network
  warn(message: string): void
  onBackgroundError?(error: unknown): void
}

export async function openRuntimes(options: RuntimesOptions): Promise<Runtimes> {
  const { settings, clock, groups, chats, files, root, network, warn } = options
  const user = agentUsers(settings, root ?? dirname(groups))
  const onBackgroundError = (error: unknown): void => options.onBackgroundError?.(error)
  const sharedCell = new SharedCell(
    () => openCell({ settings, groups, chats, files, root, onError: onBackgroundError }),
    warn,
  )
  const open = async (name: RuntimeName, settings: RuntimeSettings): Promise<Runtime> => {
    const { openRuntime } = await load(name)
    return openRuntime({ settings, clock, user, cell: () => sharedCell.open(), network, warn, onBackgroundError })
  }
  let current = new RuntimeSet(settings, open)
  const retiring = new Set<Promise<void>>()
  const selectSet = (now: RuntimeSettings): RuntimeSet => {
    if (now === current.settings) return current
    const closing = current.retire().catch(onBackgroundError)
    retiring.add(closing)
    closing.then(() => retiring.delete(closing)).catch(onBackgroundError)
    current = new RuntimeSet(now, open)
    return current
  }
  // The demo runs without a cell.
  if (settings.AGENT_RUNTIME !== 'demo') void sharedCell.open().catch(() => undefined)
  // Open the default runtime before the first message, but after the start-up work.
  const warmUp = setTimeout(
    () => void current.open(current.settings.AGENT_RUNTIME).catch(() => undefined),
    WARM_UP_DELAY_MS,
  ).unref()
  return {
    runtimeFor: async (config, now = current.settings) =>
      selectSet(now).open(parseRuntimeName(config?.runtime ?? now.AGENT_RUNTIME)),
    close: async () => {
      clearTimeout(warmUp)
      await current.close()
      await Promise.all(retiring)
      await sharedCell.close()
    },
  }
}

/** The runtimes opened with one set of settings. */
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
    const opening =
      this.#opened.get(name) ?? this.#open(name, this.settings).then((runtime) => this.#trackRuns(runtime))
    this.#opened.set(name, opening)
    return opening
  }

  async close(): Promise<void> {
    for (const opening of this.#opened.values()) await (await opening).close()
  }

  /** Closes after the current runs have ended. */
  async retire(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running)
    await this.close()
  }

  #trackRuns(runtime: Runtime): Runtime {
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

/** Retry interval after a failure: the operator may have installed the missing package. */
const CELL_RETRY_MS = 10_000

/** The cell of all runs, opened on first use. */
class SharedCell {
  readonly #open: () => Promise<Cell>
  readonly #warn: (message: string) => void
  #opening: Promise<Cell> | undefined
  #lastWarning = ''

  constructor(open: () => Promise<Cell>, warn: (message: string) => void) {
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
      }, CELL_RETRY_MS).unref()
      if (!(error instanceof Refusal)) throw error
      const message = `agents cannot run: ${error.message}; ${error.hint ?? 'run svc doctor for details'}`
      if (message !== this.#lastWarning) this.#warn(message)
      this.#lastWarning = message
      throw new RunFault('unavailable', message)
    }
  }
}

function parseRuntimeName(value: unknown): RuntimeName {
  const name = RUNTIME_NAMES.find((known) => known === value)
  return name ?? refuse('invalid', `${JSON.stringify(value)} is not a runtime; use one of ${RUNTIME_NAMES.join(', ')}`)
}
