// Settings of the agents' sandbox.
import { z } from 'zod'
import { EnvValue } from '../core/values.ts'
import {
  BooleanSetting,
  BytesSetting,
  CountSetting,
  DurationSetting,
  type SettingDeclarations,
  type Settings,
  setting,
} from '../lib/settings.ts'

const PathsSetting = EnvValue.transform((text) => text.split(':').filter(Boolean)).refine(
  (paths) => paths.every((path) => path.startsWith('/') && path !== '/' && !path.split('/').includes('..')),
  'must be absolute paths such as /opt/tools:/srv/models, without / itself',
)

export const CELL_SETTINGS = {
  SANDBOX: setting(
    z.enum(['bwrap', 'none']),
    'bwrap',
    'sandbox of agents; none gives them the files and the network of this machine',
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
  AGENT_UID: setting(CountSetting, undefined, 'uid of agents when svc runs as root; default 60000'),
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
