// Where an instance keeps its files. Paths only: nothing here touches the disk.
import { hash } from 'node:crypto'
import { join, resolve } from 'node:path'
import { refuse } from '../lib/refusal.ts'
import type { AgentUser } from './agent-user.ts'
import { folderFault } from './values.ts'

/** The longest name that file systems take. Folders are ASCII, so that characters are bytes. */
const NAME_MAX = 255

/** The name of an instance, or a refusal before any path is built from it. */
export function instanceName(text: string): string {
  if (/^[A-Za-z0-9_][A-Za-z0-9_-]{0,31}$/.test(text)) return text
  return refuse(
    'invalid',
    `${JSON.stringify(text.slice(0, 40))} must be 1 to 32 letters, digits, "_" or "-", and "-" not first`,
    'an instance has a short name such as demo',
  )
}

/** The two variables that say where instances lie. An empty one counts as unset, as in a shell's `${PREFIX:-/srv}`. */
export interface Whereabouts {
  readonly SVC_DATA_DIR?: string | undefined
  readonly PREFIX?: string | undefined
}

/** The directory that instances lie in. */
export function dataRoot({ SVC_DATA_DIR, PREFIX }: Whereabouts): string {
  return resolve(SVC_DATA_DIR || join(PREFIX || '/srv', 'data'))
}

export function dataDir(name: string, whereabouts: Whereabouts): string {
  return join(dataRoot(whereabouts), `svc_${instanceName(name)}`)
}

/** The name of the instance in a directory that is called so; nothing where it is none. */
export function instanceOf(directory: string): string | undefined {
  const [, name] = /^svc_([A-Za-z0-9_][A-Za-z0-9_-]{0,31})$/.exec(directory) ?? []
  return name
}

export interface Layout {
  readonly root: string
  readonly env: string
  readonly compose: string
  /** `<daemon>.env`: what each container gets of the settings. */
  readonly daemonEnvs: string
  readonly services: string
  readonly store: string
  /** The index of what was said: derived from the store, and made anew where it is lost. */
  readonly search: string
  readonly groups: string
  /** What runs of visitors' chats write, a directory for each chat. */
  readonly chats: string
  /** What the programs of turns print, a directory for each folder. */
  readonly logs: string
  readonly ipc: string
  readonly web: string
  readonly webPub: string
  readonly webPriv: string
  readonly egressState: string
  /** Owner of the workspaces; undefined where agents run as svc's own user. */
  readonly agent?: AgentUser | undefined
}

export function layout(root: string, agent?: AgentUser): Layout {
  return {
    root,
    env: join(root, '.env'),
    compose: join(root, 'docker-compose.yml'),
    daemonEnvs: join(root, 'env'),
    services: join(root, 'services'),
    store: join(root, 'store', 'svc.db'),
    search: join(root, 'store', 'search.db'),
    groups: join(root, 'groups'),
    chats: join(root, 'chats'),
    logs: join(root, 'logs'),
    ipc: join(root, 'ipc'),
    web: join(root, 'web'),
    webPub: join(root, 'web', 'pub'),
    webPriv: join(root, 'web', 'priv'),
    egressState: join(root, 'egress', 'state.json'),
    ...(agent === undefined ? {} : { agent }),
  }
}

export interface GroupDirs {
  /** The agent's workspace, which every tool calls `/home/node/`. */
  readonly home: string
  /** Outside of the workspace, where no agent writes. */
  readonly logs: string
  readonly skills: string
  /** Shared by all groups of one world, which is the first segment of a folder. */
  readonly share: string
  readonly ipc: string
  readonly socket: string
  readonly webPub: string
  readonly webPriv: string
}

/** The places of one group. A text that is no folder is refused, so that no path leaves the instance. */
export function groupDirs(of: Layout, folder: string): GroupDirs {
  const fault = folderFault(folder)
  if (fault) refuse('invalid', `the folder ${JSON.stringify(folder.slice(0, 80))} ${fault}`)
  const [world = folder] = folder.split('/')
  const home = join(of.groups, folder)
  return {
    home,
    logs: join(of.logs, oneSegment(folder)),
    skills: join(home, '.claude', 'skills'),
    share: join(of.groups, world, 'share'),
    ipc: join(of.ipc, folder),
    socket: join(of.ipc, folder, 'gated.sock'),
    webPub: join(of.webPub, folder),
    webPriv: join(of.webPriv, folder),
  }
}

/** Where runs of this folder write in this chat, when visitors ask. A JID is hashed: it may hold any character. */
export function chatDir(of: Layout, folder: string, jid: string): string {
  groupDirs(of, folder)
  return join(of.chats, oneSegment(folder), hash('sha256', jid, 'hex').slice(0, 32))
}

/** One segment for any folder: a directory below another would mix its files with those of a child. */
function oneSegment(folder: string): string {
  const name = folder.replaceAll('/', '%2F')
  if (name.length <= NAME_MAX) return name
  return `${name.slice(0, NAME_MAX - 17)}%${hash('sha256', folder, 'hex').slice(0, 16)}`
}
