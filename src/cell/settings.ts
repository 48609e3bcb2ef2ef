// What an instance can say about the cells of its agents.
import { z } from 'zod'
import { EnvValue } from '../core/values.ts'
import {
  BooleanSetting,
  BytesSetting,
  CountSetting,
  type Declared,
  DurationSetting,
  type Settings,
  setting,
} from '../lib/settings.ts'

const PathsSetting = EnvValue.transform((text) => text.split(':').filter(Boolean)).refine(
  (paths) => paths.every((path) => path.startsWith('/') && path !== '/' && !path.split('/').includes('..')),
  'must be absolute paths such as /opt/tools:/srv/models, and not / itself',
)

export const CELL_SETTINGS = {
  SANDBOX: setting(
    z.enum(['bwrap', 'none']),
    'bwrap',
    'whether agents run in a cell; none gives them the files and the network of this machine',
  ),
  SANDBOX_PATHS: setting(PathsSetting, '', 'what an agent may read besides, as absolute paths with colons between'),
  NETWORK: setting(
    z.enum(['rules', 'open']),
    'rules',
    'whether svc network rules bind agents; open gives them the network of this machine',
  ),
  NETWORK_DENY_PRIVATE: setting(
    BooleanSetting,
    'true',
    'whether an allowed host name that leads to a loopback, private or metadata address is refused',
  ),
  AGENT_UID: setting(
    CountSetting,
    undefined,
    'the user number that agents run as when svc runs as root; 60000 unless said',
  ),
  AGENT_MAX_PROCESSES: setting(CountSetting, '1024', 'processes and threads of one run; 0 is no limit'),
  AGENT_MAX_MEMORY: setting(BytesSetting, '4GiB', 'memory of one run'),
  AGENT_MAX_FILES: setting(CountSetting, '4096', 'files that each process of a run may have open; 0 is no limit'),
  AGENT_MAX_CPU: setting(DurationSetting, '1h', 'processor time of one run; 0s is no limit'),
} satisfies Declared

export type CellSettings = Settings<typeof CELL_SETTINGS>
