// Attacks by an agent program in a real cell. svc runs in a child process, once as root and once as an ordinary user.
import { type ChildProcess, fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, suite } from 'node:test'
import type { Reach } from '../../src/core/access/reach.ts'
import { needs, type PartName } from './needs.ts'
import { isIn } from './part.ts'
import { tempDir } from './temp.ts'

export interface AttackSetup {
  readonly root: string
  readonly folders: readonly string[]
  readonly settings: Readonly<Record<string, string>>
  /** Whether the tool socket is that of a relay, as on kernels that cannot refuse descriptors. */
  readonly isRelayed: boolean
}

export interface AttackOrder {
  readonly id: number
  readonly folder: string
  /** A shell command, or a program with its arguments. */
  readonly command: string | readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly topic: string
  readonly jid: string
  /** With `chat`, the run writes to the directory of its chat and reads the workspace. */
  readonly reach?: Reach | undefined
  readonly sessionId?: string | undefined
  readonly hangMs: number
}

export interface AttackOutcome {
  readonly id: number
  /** The longest time since the previous outcome in which the event loop of svc did not run. */
  readonly stallMs: number
  readonly result?: string
  readonly fault?: { readonly kind: string; readonly message: string }
}

/** A run that svc reports as failed. */
export class FailedAttack extends Error {
  readonly kind: string

  constructor({ kind, message }: NonNullable<AttackOutcome['fault']>) {
    super(message)
    this.kind = kind
  }
}

export type SvcUser = 'root' | 'an ordinary user'

/** An unprivileged user of this machine, other than the agents' (60000). */
const ORDINARY_UID = 65_533

/** Options of `spawn`. Without them the child has the user of the test, which is an ordinary one if not root. */
export function identityOf(user: SvcUser): { uid?: number; gid?: number } {
  return user === 'an ordinary user' && process.getuid?.() === 0 ? { uid: ORDINARY_UID, gid: ORDINARY_UID } : {}
}

/** The user of agents on this machine. */
export function agentUidOf(user: SvcUser): number {
  if (user === 'root') return 60_000
  return identityOf(user).uid ?? process.getuid?.() ?? ORDINARY_UID
}

/** Runs the same tests for both users. Root is in the long part, and only if root runs the tests. */
export function forEachUser(title: string, parts: readonly PartName[], tests: (user: SvcUser) => void): void {
  const common: PartName[] = ['bubblewrap', 'kernel', ...parts]
  if (isIn('long')) suite(`${title}, with svc started as root`, needs('root', ...common), () => tests('root'))
  if (isIn('quick'))
    suite(`${title}, with svc started as an ordinary user`, needs('open checkout', ...common), () =>
      tests('an ordinary user'),
    )
}

export interface AttackOptions extends Partial<Omit<AttackOrder, 'id' | 'command'>> {
  /** Do not return standard error. */
  readonly silent?: boolean
}

export interface AttackHost {
  /** The data directory, with a secret in `.env`. */
  readonly root: string
  readonly pid: number
  /** The workspace of a folder. */
  home(folder?: string): string
  /** Returns the output, including standard error. Rejects with a `FailedAttack` if the run fails. */
  attack(command: string | readonly string[], options?: AttackOptions): Promise<string>
  /** The longest time in which svc did nothing, until the last attack that ended. */
  stallMs(): number
}

export interface AttackHostOptions {
  readonly isRelayed?: boolean
}

export const ENV_SECRET = 'svc-secret-of-the-host'
export const OTHER_SECRET = 'svc-secret-of-another-folder'

/** Opens an instance with the folders `team`, `team/child` and `other`, for a suite. */
export function attackHost(
  user: SvcUser,
  settings: Readonly<Record<string, string>> = {},
  options: AttackHostOptions = {},
): () => AttackHost {
  const endings: (() => void | Promise<void>)[] = []
  let host: AttackHost | undefined
  before(async () => {
    host = await openAttackHost({ after: (work) => void endings.unshift(work) }, user, settings, options)
  })
  after(async () => {
    for (const work of endings) await work()
  })
  return () => host ?? raise('the suite has not started')
}

interface Cleanup {
  after(work: () => void | Promise<void>): void
}

export async function openAttackHost(
  cleanup: Cleanup,
  user: SvcUser,
  settings: Readonly<Record<string, string>> = {},
  { isRelayed = false }: AttackHostOptions = {},
): Promise<AttackHost> {
  const root = tempDir(cleanup)
  const identity = identityOf(user)
  if (identity.uid !== undefined && identity.gid !== undefined) chownSync(root, identity.uid, identity.gid)
  const setup: AttackSetup = { root, folders: ['team', 'team/child', 'other'], settings, isRelayed }
  const child = fork(join(import.meta.dirname, 'attack-child.ts'), [JSON.stringify(setup)], {
    ...identity,
    env: { PATH: process.env.PATH, HOME: root },
    serialization: 'json',
  })
  cleanup.after(() => end(child))
  const [first] = await Promise.race([once(child, 'message'), once(child, 'exit')])
  if (first !== 'ready') throw new Error(`the process that runs attacks ended with exit code ${first}`)
  writeFileSync(join(root, '.env'), `SECRETS_KEY=${ENV_SECRET}\n`, { mode: 0o600 })
  const home = (folder = 'team'): string => join(root, 'groups', folder)
  writeFileSync(join(home('other'), 'secret'), OTHER_SECRET)
  const order = orderer(child)
  let longestMs = 0
  return {
    root,
    pid: child.pid ?? raise('the process that runs attacks has no id'),
    home,
    attack: async (command, { silent = false, ...options } = {}) => {
      const wrapped = typeof command === 'string' ? `(${command}\n) ${silent ? '2>/dev/null' : '2>&1'}; true` : command
      const given = { folder: 'team', env: {}, topic: '', jid: 'web:team', hangMs: 60_000, ...options }
      const { result, fault, stallMs } = await order({ ...given, command: wrapped })
      longestMs = Math.max(longestMs, stallMs)
      if (fault) throw new FailedAttack(fault)
      return result ?? ''
    },
    stallMs: () => longestMs,
  }
}

function orderer(child: ChildProcess): (order: Omit<AttackOrder, 'id'>) => Promise<AttackOutcome> {
  const pending = new Map<number, PromiseWithResolvers<AttackOutcome>>()
  let lastId = 0
  child.on('message', (outcome: AttackOutcome) => {
    pending.get(outcome.id)?.resolve(outcome)
    pending.delete(outcome.id)
  })
  child.on('exit', () => {
    for (const waiting of pending.values()) waiting.reject(new Error('the process that runs attacks has ended'))
  })
  return (order) => {
    const waiting = Promise.withResolvers<AttackOutcome>()
    const id = ++lastId
    pending.set(id, waiting)
    child.send({ id, ...order })
    return waiting.promise
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.disconnect()
  await exit
}

function raise(message: string): never {
  throw new Error(message)
}

/** A FIFO on which an agent waits: `cat gate > /dev/null`. */
export interface FifoGate {
  /** Resolves when the agent has opened it. */
  reached(): Promise<void>
  /** Lets the agent continue. */
  open(): Promise<void>
}

export function openFifoGate(path: string): FifoGate {
  const { status, stderr } = spawnSync('mkfifo', ['-m', '666', path], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`mkfifo: ${stderr}`)
  // Opening a FIFO for writing waits for a reader.
  const opening = open(path, 'w')
  return {
    reached: async () => void (await opening),
    open: async () => (await opening).close(),
  }
}
