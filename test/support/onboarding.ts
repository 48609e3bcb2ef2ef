// Chats that ask for a folder, for tests of onboarding.
import { mkdirSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { decodeContent, messages } from '../../src/core/messages/messages.ts'
import { type OnboardingRow, onboarding } from '../../src/core/people/onboarding.ts'
import { onboardChat } from '../../src/core/people/onboarding-chat.ts'
import { admitWaiting } from '../../src/daemons/onbod/admission-worker.ts'
import { openLog } from '../../src/lib/log/log.ts'
import { onboardingGatesResource } from '../../src/resources/onboarding-gates.ts'
import type { StoreAddress } from '../../src/store/index.ts'
import { type EngineName, type TestHost, testHost } from './host.ts'

export interface OnboardingTest extends TestHost {
  /** A message of the chat; returns the reply. */
  write(jid: string, text: string, sender?: string): Promise<string | undefined>
  /** Greets the chat and asks for the folder. */
  ask(jid: string, folder: string, sender?: string): Promise<void>
  gate(spec: string, limit: number): Promise<void>
  /** One pass of the worker. */
  admit(): Promise<void>
  row(jid: string): Promise<OnboardingRow | undefined>
  /** Messages of the instance to the chat, oldest first. */
  told(jid: string): Promise<string[]>
}

export async function openOnboardingTest(
  t: TestContext,
  engine: EngineName,
  store?: StoreAddress,
): Promise<OnboardingTest> {
  const on = await testHost(t, engine, store)
  const { host, clock } = on
  const log = await openLog({ to: { write: () => {} } })
  for (const path of [host.layout?.webPub, host.layout?.webPriv]) if (path) mkdirSync(path, { recursive: true })
  const write: OnboardingTest['write'] = (jid, text, sender = `${jid.split(':')[0]}:7`) =>
    host.engine.transaction((tx) => onboardChat(tx, { jid, sender, text, now: clock.now() }))
  return {
    ...on,
    write,
    ask: async (jid, folder, sender) => {
      await write(jid, 'hello', sender)
      await write(jid, folder, sender)
    },
    gate: (spec, daily_limit) => on.cli.call(onboardingGatesResource.verbs.put, { spec, daily_limit }),
    admit: () => admitWaiting({ host, log }),
    row: (jid) => host.engine.read((tx) => onboarding.find(tx, { jid })),
    told: async (jid) => {
      const sent = await host.engine.read((tx) => messages.list(tx, { jid, direction: 'out' }, [['seq', 'asc']]))
      return sent.map(({ content }) => decodeContent(content))
    },
  }
}
