// Paths of an instance's files. Nothing here touches the disk.
import { hash } from 'node:crypto'
import { join, resolve } from 'node:path'
import { refuse } from '../lib/refusal.ts'
import { shellQuote } from '../lib/text/shell-quote.ts'
import { worldOf } from './access/tiers.ts'
import { type AgentUsers, WORKSPACES } from './agent-user.ts'
import { folderFault } from './values.ts'

/** The limit of common file systems, in bytes. Folder names are ASCII. */
const NAME_MAX = 255

export function instanceName(text: string): string {
  if (/^[A-Za-z0-9_][A-Za-z0-9_-]{0,31}$/.test(text)) return text
  return refuse(
    'invalid',
    `${JSON.stringify(text.slice(0, 40))} must be 1 to 32 letters, digits, "_" or "-", and "-" not first`,
    'an instance has a short name such as demo',
  )
}

/** An empty variable counts as unset, as in a shell's `${PREFIX:-/srv}`. */
export interface DataRootVariables {
  readonly SVC_DATA_DIR?: string | undefined
  readonly PREFIX?: string | undefined
}

export function dataRoot({ SVC_DATA_DIR, PREFIX }: DataRootVariables): string {
  return resolve(SVC_DATA_DIR || join(PREFIX || '/srv', 'data'))
}

/** Before svc in a shell that may lack SVC_DATA_DIR; empty for the default directory. */
export function dataDirVariable(root: string): string {
  return root === dataRoot({}) ? '' : `SVC_DATA_DIR=${shellQuote(root)} `
}

export function dataDir(name: string, variables: DataRootVariables): string {
  return join(dataRoot(variables), `svc_${instanceName(name)}`)
}

/** The instance name in a directory name; undefined if the directory is not an instance's. */
export function instanceNameOf(directory: string): string | undefined {
  const [, name] = /^svc_([A-Za-z0-9_][A-Za-z0-9_-]{0,31})$/.exec(directory) ?? []
  return name
}

export interface Layout {
  readonly root: string
  readonly env: string
  readonly compose: string
  /** One `<daemon>.env` per container. */
  readonly daemonEnvs: string
  readonly services: string
  /** Skills of packages, which every workspace gets a copy of. */
  readonly packageSkills: string
  /** Files of a package change that is not finished. */
  readonly packageChanges: string
  readonly store: string
  /** Time of the last complete backup, for the metrics. */
  readonly lastBackup: string
  /** The search index; rebuilt from the store if it is lost. */
  readonly search: string
  readonly groups: string
  /** Files of runs in visitors' chats, one directory per chat. */
  readonly chats: string
  /** Files of messages in chats of links, one directory per chat. */
  readonly files: string
  /** Output of runs, one directory per folder. */
  readonly logs: string
  readonly ipc: string
  /** Sockets and files that agents' containers mount, one directory per process. */
  readonly cells: string
  readonly web: string
  readonly webPub: string
  readonly webPriv: string
  /** The users of agents, which own the workspaces; undefined if agents run as svc's user. */
  readonly agents?: AgentUsers | undefined
}

export function layout(root: string, agents?: AgentUsers): Layout {
  return {
    root,
    env: join(root, '.env'),
    compose: join(root, 'docker-compose.yml'),
    daemonEnvs: join(root, 'env'),
    services: join(root, 'services'),
    packageSkills: join(root, 'skills'),
    packageChanges: join(root, 'packages'),
    store: join(root, 'store', 'svc.db'),
    lastBackup: join(root, 'store', 'last-backup'),
    search: join(root, 'store', 'search.db'),
    groups: join(root, WORKSPACES),
    chats: join(root, 'chats'),
    files: join(root, 'files'),
    logs: join(root, 'logs'),
    ipc: join(root, 'ipc'),
    cells: join(root, 'cells'),
    web: join(root, 'web'),
    webPub: join(root, 'web', 'pub'),
    webPriv: join(root, 'web', 'priv'),
    ...(agents === undefined ? {} : { agents }),
  }
}

export interface GroupDirs {
  /** The agent's workspace; tools and agents see it as `/home/node/`. */
  readonly home: string
  /** Outside the workspace, so agents cannot write it. */
  readonly logs: string
  readonly skills: string
  /** Shared by all groups of one world (the first segment of a folder). */
  readonly share: string
  readonly ipc: string
  readonly socket: string
  readonly webPub: string
  readonly webPriv: string
}

/** Rejects invalid folders, so no path leaves the instance. */
export function groupDirs(instance: Layout, folder: string): GroupDirs {
  const fault = folderFault(folder)
  if (fault) refuse('invalid', `the folder ${JSON.stringify(folder.slice(0, 80))} ${fault}`)
  const home = join(instance.groups, folder)
  return {
    home,
    logs: join(instance.logs, flatName(folder)),
    skills: join(home, '.claude', 'skills'),
    share: join(instance.groups, worldOf(folder), 'share'),
    ipc: join(instance.ipc, folder),
    socket: join(instance.ipc, folder, 'gated.sock'),
    webPub: join(instance.webPub, folder),
    webPriv: join(instance.webPriv, folder),
  }
}

/** The world of a directory in `chats`. */
export function worldOfChats(name: string): string {
  return name.split('%', 1)[0] ?? name
}

/** A chat and the reach of its runs: what a run leaves in its HOME must not decide how one of larger reach runs. */
export interface ChatPlace {
  readonly folder: string
  readonly jid: string
  readonly reach: 'chat' | 'work'
}

/** HOME of the runs of a chat. The JID is hashed because it may contain any character. */
export function chatDir(instance: Layout, { folder, jid, reach }: ChatPlace): string {
  groupDirs(instance, folder)
  const name = reach === 'chat' ? jid : `${reach}\0${jid}`
  return join(instance.chats, flatName(folder), hash('sha256', name, 'hex').slice(0, 32))
}

/** The files of a chat's messages, which its runs see read-only. */
export function chatFilesDir(instance: Layout, { folder, jid }: Pick<ChatPlace, 'folder' | 'jid'>): string {
  groupDirs(instance, folder)
  return join(instance.files, flatName(folder), hash('sha256', jid, 'hex').slice(0, 32))
}

/** A single path segment per folder: nested directories would mix a folder's files with its children's. */
function flatName(folder: string): string {
  const name = folder.replaceAll('/', '%2F')
  if (name.length <= NAME_MAX) return name
  return `${name.slice(0, NAME_MAX - 17)}%${hash('sha256', folder, 'hex').slice(0, 16)}`
}
