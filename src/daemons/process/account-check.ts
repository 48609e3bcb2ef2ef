// Asks a chat platform who an account is, in a process of its own: its libraries are not loaded here.
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { z } from 'zod'
import { channelAccounts, openAccountSecrets } from '../../core/delivery/channel-accounts.ts'
import { type ConnectedPlatform, isConnectedPlatform } from '../../core/delivery/platform-accounts.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { SettingSource } from '../../lib/settings.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { spawnAdapter } from './adapter-child.ts'
import { apiUrlOf } from './adapter-processes.ts'

const CHECK_MS = 30_000

const Answer = z.union([
  z.object({
    check: z.object({
      name: z.string(),
      inviteUrl: z.string().optional(),
      steps: z.array(z.string()).optional(),
    }),
  }),
  z.object({ fault: z.string() }),
])
export type CheckedAccount = Extract<z.output<typeof Answer>, { check: unknown }>['check']

interface AccountToCheck {
  readonly settings: Readonly<Record<string, string>>
  readonly secrets: Readonly<Record<string, string>>
  readonly sources: readonly SettingSource[]
  /** What to do if the platform does not accept it. */
  readonly hint?: string | undefined
}

/** Refuses with a sentence if the platform does not accept the account. */
export async function checkPlatformAccount(
  platform: ConnectedPlatform,
  { sources, settings, secrets, hint }: AccountToCheck,
): Promise<CheckedAccount> {
  const child = spawnAdapter(
    { isCheck: true, platform, settings, secrets, apiUrl: apiUrlOf(platform, sources) },
    'ignore',
  )
  const timer = setTimeout(() => child.kill('SIGKILL'), CHECK_MS)
  // It also ends its output.
  child.on('error', () => undefined)
  const answer = await readAnswer(child.stdout).finally(() => {
    clearTimeout(timer)
    child.kill()
  })
  if ('check' in answer) return answer.check
  return refuse('invalid', `the check of the account failed: ${answer.fault}`, hint)
}

/** Other lines are signs of life. */
async function readAnswer(output: Readable | null): Promise<z.output<typeof Answer>> {
  for await (const line of output ? createInterface({ input: output }) : []) {
    const { data } = Answer.safeParse(tryParseJson(line))
    if (data) return data
  }
  return { fault: 'the platform does not answer' }
}

export interface ProbedAccount {
  readonly account: string
  /** The name that the platform gives it; absent if the platform did not accept the account. */
  readonly name?: string | undefined
  readonly fault?: string | undefined
}

/** Asks the platforms about all accounts. */
export async function probeAccounts(
  { engine, keyring }: Pick<InstanceHost, 'engine' | 'keyring'>,
  sources: readonly SettingSource[],
): Promise<ProbedAccount[]> {
  const rows = await engine.read((tx) => channelAccounts.list(tx, {}, [['account', 'asc']]))
  const probed: ProbedAccount[] = []
  for (const row of rows) {
    const { account, platform, settings } = row
    try {
      if (!isConnectedPlatform(platform)) refuse('invalid', `this version has no adapter for ${platform}`)
      const secrets = openAccountSecrets(keyring, row).platform
      probed.push({ account, name: (await checkPlatformAccount(platform, { settings, secrets, sources })).name })
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      probed.push({ account, fault: error.message })
    }
  }
  return probed
}
