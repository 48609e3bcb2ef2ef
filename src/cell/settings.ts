// Settings of the agents' sandbox.
import { z } from 'zod'
import { EnvValue } from '../core/values.ts'
import {
  BooleanSetting,
  BytesSetting,
  CountSetting,
  DurationSetting,
  envOnly,
  type SettingDeclarations,
  type Settings,
  setting,
} from '../lib/settings.ts'

const PathsSetting = EnvValue.transform((text) => text.split(':').filter(Boolean)).refine(
  (paths) => paths.every((path) => path.startsWith('/') && path !== '/' && !path.split('/').includes('..')),
  'must be absolute paths such as /opt/tools:/srv/models, without / itself',
)

const PathSetting = EnvValue.refine(
  (path) => path.startsWith('/') && !path.split('/').includes('..'),
  'must be an absolute path',
)

export const AGENT_USER_SETTINGS = envOnly({
  AGENT_UID: setting(CountSetting, undefined, 'uid of agents when svc runs as root; default 60000'),
  AGENT_UIDS: setting(
    CountSetting,
    '1000',
    'number of uids from AGENT_UID on; the agents of each world (first segment of a folder) have one of their own',
  ),
})

export const CELL_SETTINGS = {
  ...envOnly({
    SANDBOX: setting(
      z.enum(['bwrap', 'container', 'none']),
      'bwrap',
      'sandbox of agents: bubblewrap, or containers of an engine; none gives them the files and the network of this machine',
    ),
    AGENT_IMAGE: setting(EnvValue, undefined, "image of agents' containers; default svc-host:<version>"),
    ENGINE_SOCKET: setting(
      PathSetting,
      '/var/run/docker.sock',
      "socket of the container engine for agents' containers",
    ),
    HOST_DATA_DIR: setting(
      PathSetting,
      undefined,
      'path of the data directory on the machine of the container engine, if svc runs in a container',
    ),
    SANDBOX_PATHS: setting(PathsSetting, '', 'more paths that agents may read, absolute, separated by colons'),
    NETWORK: setting(
      z.enum(['rules', 'open']),
      'rules',
      'whether svc network rules apply to agents; open gives them the network of this machine',
    ),
    NETWORK_DENY_PRIVATE: setting(
      BooleanSetting,
      'true',
      'refuse an allowed host name that resolves to a loopback, private or metadata address',
    ),
  }),
  AGENT_CONTAINER_IDLE: setting(
    DurationSetting,
    '5m',
    "how long an agent's container is kept for the next turn of its folder; 0s for one container per turn",
  ),
  ...AGENT_USER_SETTINGS,
  AGENT_MAX_PROCESSES: setting(
    CountSetting,
    '1024',
    'maximum number of processes and threads of one run; 0 for no limit',
  ),
  AGENT_MAX_MEMORY: setting(BytesSetting, '4GiB', 'maximum memory of one run'),
  AGENT_MAX_FILES: setting(
    CountSetting,
    '4096',
    'maximum number of open files of each process of a run; 0 for no limit',
  ),
  AGENT_MAX_CPU: setting(DurationSetting, '1h', 'maximum processor time of one run; 0s for no limit'),
} satisfies SettingDeclarations

export type CellSettings = Settings<typeof CELL_SETTINGS>
