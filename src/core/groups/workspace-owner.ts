// Makes the user of a world's agents the owner of its files: of new workspaces, which belong to root, of those of earlier
// versions, in which all agents had one user, and after a change of AGENT_UID or AGENT_UIDS.
import { join } from 'node:path'
import { Directory } from '../../lib/files/directory.ts'
import { SyncDirectory } from '../../lib/files/directory-sync.ts'
import { chownTree } from '../../lib/files/directory-tree.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Engine } from '../../store/engine.ts'
import { ROOT_FOLDER, worldOf } from '../access/tiers.ts'
import { type AgentUser, type AgentUsers, userOfWorld } from '../agent-user.ts'
import { groupDirs, type Layout, worldOfChats } from '../layout.ts'
import { folderFault } from '../values.ts'
import { WORLD_MODE } from './workspace-home.ts'
import { findWorldOrdinal } from './world-users.ts'

const PROGRESS_EVERY = 1000

export interface WorldOwnersOptions {
  readonly engine: Pick<Engine, 'read' | 'transaction'>
  readonly layout: Layout
  /** Called every 1,000 entries with their number in this world. */
  onProgress?(world: string, done: number): void
  /** Called with the path of a file that keeps its owner, because it has a name elsewhere (a hard link). */
  onKept?(path: string): void
}

export class WorldOwners {
  readonly #options: WorldOwnersOptions
  readonly #ordinals = new Map<string, number>()
  /** By path. */
  readonly #changes = new Map<string, Promise<number>>()
  readonly #closing = new AbortController()

  constructor(options: WorldOwnersOptions) {
    this.#options = options
  }

  /**
   * The user of the agents of this folder; undefined if agents run as svc's user. Resolves when the workspaces of its world
   * belong to this user, which takes a while after an update.
   */
  async userOf(folder: string): Promise<AgentUser | undefined> {
    const { layout } = this.#options
    if (!layout.agents) return undefined
    const user = await this.#userOfWorld(layout.agents, worldOf(folder))
    const { home } = groupDirs(layout, worldOf(folder))
    if (!this.#isOwned(home, user)) await this.#change(home, user, worldOf(folder))
    return user
  }

  /**
   * Changes all worlds and visitors' chats with another owner, and returns the number of entries changed. An interrupted change
   * is continued by the next call. If one fails, the others are still changed; then it throws.
   */
  async changeAll(): Promise<number> {
    const { layout } = this.#options
    const { agents } = layout
    if (!agents) return 0
    let done = 0
    let fault: Refusal | undefined
    const change = async (world: string, work: (user: AgentUser) => Promise<number>): Promise<void> => {
      if (folderFault(world) !== undefined || this.#closing.signal.aborted) return
      try {
        done += await work(await this.#userOfWorld(agents, world))
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        fault ??= error
      }
    }
    // The root keeps the user that all agents had.
    const worlds = (await namesIn(layout.groups)).sort((a, b) => Number(b === ROOT_FOLDER) - Number(a === ROOT_FOLDER))
    for (const world of worlds) await change(world, (user) => this.#change(groupDirs(layout, world).home, user, world))
    for (const name of await namesIn(layout.chats))
      for (const chat of await namesIn(join(layout.chats, name)))
        await change(worldOfChats(name), (user) => this.#change(join(layout.chats, name, chat), user))
    if (fault) throw fault
    return done
  }

  /** Interrupts a change. */
  close(): void {
    this.#closing.abort()
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  async #userOfWorld(agents: AgentUsers, world: string): Promise<AgentUser> {
    if (agents.count === 1) return agents
    const ordinal = this.#ordinals.get(world) ?? (await findWorldOrdinal(this.#options.engine, world))
    this.#ordinals.set(world, ordinal)
    return userOfWorld(agents, ordinal)
  }

  /** Whether a world needs no change, as before nearly every turn: synchronous, so that the turn does not wait for threads. */
  #isOwned(path: string, { uid }: AgentUser): boolean {
    using top = SyncDirectory.open(path)
    const found = top?.stat()
    return found?.uid === uid && !this.#isTooOpen(found.mode)
  }

  /** For the directory of a world. */
  #isTooOpen(mode: number): boolean {
    return this.#options.layout.agents?.count !== 1 && (mode & ~WORLD_MODE & 0o777) !== 0
  }

  /** `world` is undefined for the directory of a chat. Concurrent calls share one change. */
  #change(path: string, user: AgentUser, world?: string): Promise<number> {
    const change = this.#changes.get(path) ?? this.#chown(path, user, world).finally(() => this.#changes.delete(path))
    this.#changes.set(path, change)
    return change
  }

  /** The owner of the directory itself is changed last, so that an interrupted change is noticed. */
  async #chown(path: string, owner: AgentUser, world?: string): Promise<number> {
    const { onProgress, onKept } = this.#options
    // The operator may have made a world a link.
    await using top = await Directory.open(path, { follow: world !== undefined })
    if (!top) return 0
    const { uid: from, mode } = await top.stat()
    if (world !== undefined && this.#isTooOpen(mode)) await top.setMode(WORLD_MODE)
    if (from === owner.uid) return 0
    return await chownTree(top, {
      owner,
      mayCopy: ({ uid }) => uid !== 0 && (uid === from || this.#isAgent(uid)),
      onProgress: (done) => {
        if (world !== undefined && done % PROGRESS_EVERY === 0) onProgress?.(world, done)
      },
      onKept: (kept) => onKept?.(kept),
      signal: this.#closing.signal,
    })
  }

  #isAgent(uid: number): boolean {
    const { agents } = this.#options.layout
    return agents !== undefined && uid >= agents.uid && uid < agents.uid + agents.count
  }
}

async function namesIn(path: string): Promise<string[]> {
  await using directory = await Directory.open(path, { follow: true })
  const entries = (await directory?.entries()) ?? []
  return entries.filter((entry) => entry.isDirectory() || entry.isSymbolicLink()).map(({ name }) => name)
}
