// What each daemon needs when it runs in a container of its own: settings, directories, other daemons, and the outside.
// Everything else stays away from it: a daemon that is taken over reads no secret of another one.
import { MODEL_SETTINGS } from '../core/secrets/model-keys.ts'
import { linePeersOf } from '../daemons/process/line-client.ts'
import {
  AGENT_LIMIT_SETTINGS,
  CHANNEL_SETTINGS,
  type DaemonName,
  INSTANCE_SETTINGS,
  isOpenIdKey,
  LINK_SETTINGS,
  ONBOARDING_SETTINGS,
  PLATFORM_URL_SETTINGS,
  RETENTION_SETTINGS,
  ROUTE_SETTINGS,
  SEARCH_SETTINGS,
  SESSION_SETTINGS,
  SIGN_IN_SETTINGS,
  SPEECH_SETTINGS,
  TRACE_SETTINGS,
  TRANSCRIPTION_SETTINGS,
  TURN_SETTINGS,
} from '../daemons/settings.ts'
import type { SettingDeclarations } from '../lib/settings.ts'
import { RUNTIME_SETTINGS } from '../runtimes/settings.ts'

/** Directories of the data directory that containers mount. */
export const MOUNTED_DIRECTORIES = [
  'store',
  'groups',
  'skills',
  'chats',
  'files',
  'logs',
  'ipc',
  'cells',
  'web',
  'outbox',
  'speech',
  'channels',
] as const
export type MountedDirectory = (typeof MOUNTED_DIRECTORIES)[number]

export interface DaemonNeeds {
  /** Keys of settings; those of listeners and of other daemons' URLs follow from `peers`. */
  readonly settings: readonly string[]
  /** Whether it reads settings whose keys contain a name, such as OIDC_<NAME>_ID. */
  readonly hasOpenIdSettings?: true
  readonly directories: Readonly<Partial<Record<MountedDirectory, 'ro' | 'rw'>>>
  /** Whether it uses the search index, a file in `store` even if the store is a PostgreSQL database. */
  readonly hasSearch?: true
  /** Daemons to which it forwards requests, by <DAEMON>_URL. */
  readonly peers: readonly DaemonName[]
  /** Whether it connects to hosts outside: providers, models, adapters. */
  readonly isOutbound: boolean
  /** Whether it exchanges requests with the services of packages: backends of routes, adapters, model gateways. */
  readonly hasPackages: boolean
}

const keysOf = (...declared: readonly SettingDeclarations[]): readonly string[] => declared.flatMap(Object.keys)

const { ASSISTANT_NAME, SECRETS_KEY } = INSTANCE_SETTINGS

/** Of every daemon: to open the store, to write its log, the host name in links, proxyd as a trusted proxy, and limits of REST. */
export const SHARED_KEYS: readonly string[] = [
  ...[
    'DATABASE_URL',
    'TZ',
    'LOG_LEVEL',
    'METRICS_ENABLED',
    'WEB_HOST',
    'TRUSTED_PROXIES',
    'REST_CALLS_PER_SECOND',
    'SETTINGS_FIXED',
    'SVC_COMMAND',
  ],
]

/** Of the daemons that serve tools: their limits, and how they reach adapters and the speech service. */
const TOOL_KEYS = keysOf(
  { SECRETS_KEY },
  TURN_SETTINGS,
  AGENT_LIMIT_SETTINGS,
  SEARCH_SETTINGS,
  SPEECH_SETTINGS,
  TRACE_SETTINGS,
  {
    FOLDER_QUOTA: LINK_SETTINGS.FOLDER_QUOTA,
    CHANNEL_REGISTER_ALLOW_PUBLIC: CHANNEL_SETTINGS.CHANNEL_REGISTER_ALLOW_PUBLIC,
  },
)

/** Which model agents use and what it costs, without keys. */
const MODEL_CHOICE: SettingDeclarations = Object.fromEntries(
  Object.entries(RUNTIME_SETTINGS).filter(
    ([key]) => key === 'MODEL_PRICES' || (MODEL_SETTINGS.some((name) => name === key) && !/KEY$|TOKEN$/.test(key)),
  ),
)

/** SQLite writes beside its file even while it reads. */
const STORE = { store: 'rw' } as const

/** Folders are created with their workspace, the skills of packages, and their pages. */
const FOLDERS = { groups: 'rw', web: 'rw', skills: 'ro' } as const

export const DAEMON_NEEDS: Readonly<Record<DaemonName, DaemonNeeds>> = {
  proxyd: {
    settings: keysOf({ SECRETS_KEY }, ROUTE_SETTINGS),
    directories: { ...STORE, web: 'ro' },
    peers: ['routd', 'webd', 'gated', 'runed', 'authd', 'onbod', 'timed', 'dashd'],
    isOutbound: false,
    hasPackages: true,
  },
  routd: {
    settings: keysOf(
      { ASSISTANT_NAME, SECRETS_KEY },
      CHANNEL_SETTINGS,
      PLATFORM_URL_SETTINGS,
      ONBOARDING_SETTINGS,
      TURN_SETTINGS,
      AGENT_LIMIT_SETTINGS,
      TRACE_SETTINGS,
    ),
    // It runs the adapters of accounts.
    directories: { ...STORE, outbox: 'rw', channels: 'rw' },
    peers: [],
    isOutbound: true,
    hasPackages: true,
  },
  webd: {
    settings: keysOf({ ASSISTANT_NAME, SECRETS_KEY }, LINK_SETTINGS, AGENT_LIMIT_SETTINGS, TRACE_SETTINGS),
    // It shows the personas and the pictures of agents.
    directories: { ...STORE, groups: 'ro', files: 'rw' },
    peers: ['proxyd'],
    isOutbound: false,
    hasPackages: false,
  },
  gated: {
    // Commands that operators type in Kubernetes run in its container, and ask platforms, too.
    settings: [...TOOL_KEYS, ...keysOf(PLATFORM_URL_SETTINGS)],
    directories: { ...STORE, ...FOLDERS, chats: 'ro', files: 'rw', ipc: 'rw', outbox: 'rw', speech: 'rw' },
    hasSearch: true,
    peers: [],
    isOutbound: true,
    hasPackages: true,
  },
  runed: {
    settings: [
      ...new Set([
        ...keysOf({ ASSISTANT_NAME }, RUNTIME_SETTINGS, RETENTION_SETTINGS, TRANSCRIPTION_SETTINGS),
        ...TOOL_KEYS,
      ]),
    ],
    directories: {
      ...STORE,
      ...FOLDERS,
      chats: 'rw',
      files: 'rw',
      cells: 'rw',
      logs: 'rw',
      outbox: 'rw',
      speech: 'rw',
    },
    hasSearch: true,
    peers: [],
    isOutbound: true,
    hasPackages: true,
  },
  authd: {
    settings: keysOf({ SECRETS_KEY }, SIGN_IN_SETTINGS),
    hasOpenIdSettings: true,
    directories: STORE,
    peers: [],
    isOutbound: true,
    hasPackages: false,
  },
  onbod: {
    settings: keysOf({ SECRETS_KEY }, SESSION_SETTINGS, TURN_SETTINGS),
    directories: { ...STORE, ...FOLDERS },
    peers: [],
    isOutbound: false,
    hasPackages: false,
  },
  timed: { settings: keysOf(TRACE_SETTINGS), directories: STORE, peers: [], isOutbound: false, hasPackages: false },
  // It edits workspaces, reads logs and shows the model, but has no key of one.
  dashd: {
    settings: keysOf(
      { ASSISTANT_NAME, SECRETS_KEY },
      LINK_SETTINGS,
      TURN_SETTINGS,
      AGENT_LIMIT_SETTINGS,
      SEARCH_SETTINGS,
      PLATFORM_URL_SETTINGS,
      MODEL_CHOICE,
    ),
    directories: { ...STORE, ...FOLDERS, chats: 'ro', logs: 'ro' },
    hasSearch: true,
    peers: [],
    // It asks platforms who an account is that someone connects.
    isOutbound: true,
    hasPackages: false,
  },
}

/** Whether this daemon reads the setting `key`. */
export function needsSetting(daemon: DaemonName, key: string): boolean {
  const { settings, hasOpenIdSettings } = DAEMON_NEEDS[daemon]
  return SHARED_KEYS.includes(key) || settings.includes(key) || (hasOpenIdSettings === true && isOpenIdKey(key))
}

/** The daemons that it calls; without a database server that notifies it, also those that it has a line to. */
export function peersOf(daemon: DaemonName, isPostgres: boolean): readonly DaemonName[] {
  return [...new Set([...DAEMON_NEEDS[daemon].peers, ...(isPostgres ? [] : linePeersOf(daemon))])]
}

/** The directories to mount; a daemon whose store is a PostgreSQL database needs `store` only for the search index. */
export function mountsOf(
  daemon: DaemonName,
  isPostgres: boolean,
): readonly (readonly [MountedDirectory, 'ro' | 'rw'])[] {
  const { directories, hasSearch } = DAEMON_NEEDS[daemon]
  return MOUNTED_DIRECTORIES.flatMap((name): [MountedDirectory, 'ro' | 'rw'][] => {
    const mode = directories[name]
    if (mode === undefined || (name === 'store' && isPostgres && !hasSearch)) return []
    return [[name, mode]]
  })
}
