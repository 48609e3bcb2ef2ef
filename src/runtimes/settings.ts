// What an instance can say about its runtimes.
import { z } from 'zod'
import { CELL_SETTINGS } from '../cell/settings.ts'
import { EnvValue } from '../core/values.ts'
import { DurationSetting, type SettingDeclarations, type Settings, setting, UrlSetting } from '../lib/settings.ts'

/** The list of runtimes: each name is a folder beside this file with a `runtime.ts`. */
export const RUNTIME_NAMES = ['demo', 'command', 'claude', 'openai'] as const
export type RuntimeName = (typeof RUNTIME_NAMES)[number]

const PriceSetting = z
  .string()
  .regex(/^\d{1,9}(\.\d{1,6})?$/, 'must be a number of cents such as 250 or 12.5')
  .transform(Number)

const EnvUrlSetting = UrlSetting.pipe(EnvValue)

/** The endpoint of an OpenAI key that comes without one. */
export const OPENAI_PUBLIC_URL = 'https://api.openai.com/v1'

/** The endpoint of an Anthropic key that comes without one. */
export const ANTHROPIC_PUBLIC_URL = 'https://api.anthropic.com'

export const RUNTIME_SETTINGS = {
  AGENT_RUNTIME: setting(z.enum(RUNTIME_NAMES), 'demo', 'what runs the agents, unless the group says otherwise'),
  AGENT_COMMAND: setting(EnvValue, undefined, 'the program of the runtime command, as a shell would run it'),
  AGENT_CLI: setting(EnvValue, 'claude', 'the agent client of svc chat and of the runtime claude'),
  AGENT_MODEL: setting(EnvValue, undefined, 'the model of the runtime claude'),
  ANTHROPIC_API_KEY: setting(EnvValue, undefined, 'given to the runtime claude'),
  CLAUDE_CODE_OAUTH_TOKEN: setting(EnvValue, undefined, 'given to the runtime claude'),
  ANTHROPIC_BASE_URL: setting(EnvUrlSetting, undefined, 'the endpoint of the runtime claude, if not the public one'),
  OPENAI_BASE_URL: setting(
    EnvUrlSetting,
    OPENAI_PUBLIC_URL,
    'the endpoint of the runtime openai; any that speaks the protocol',
  ),
  OPENAI_MODEL: setting(EnvValue, undefined, 'the model of the runtime openai'),
  OPENAI_API_KEY: setting(EnvValue, undefined, 'the key of that endpoint; none is needed on this machine'),
  OPENAI_PRICE_INPUT: setting(PriceSetting, undefined, 'cents for a million tokens in'),
  OPENAI_PRICE_OUTPUT: setting(PriceSetting, undefined, 'cents for a million tokens out'),
  ...CELL_SETTINGS,
  TURN_DEADLINE: setting(DurationSetting, '20m', 'how long a turn may take'),
  TURN_HANG: setting(DurationSetting, '5m', 'how long a turn may give no sign of life'),
} satisfies SettingDeclarations

export type RuntimeSettings = Settings<typeof RUNTIME_SETTINGS>
