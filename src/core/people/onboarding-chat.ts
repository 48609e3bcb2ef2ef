// The conversation with a chat that has no route: it is greeted once, and its next message names a folder.
import { timestamp } from '../../lib/clock.ts'
import { trimLeading, trimTrailing } from '../../lib/text/trimming.ts'
import type { Tx } from '../../store/engine.ts'
import { RoutableJid } from '../routing/routes.ts'
import { onboarding, openOnboarding } from './onboarding.ts'
import { requestFolder } from './onboarding-requests.ts'

/** Unusable names of one chat that are answered: two programs must not answer each other forever. */
export const ANSWERED_NAMES_MAX = 10

interface UnroutedMessage {
  readonly jid: string
  readonly sender: string
  /** Absent for reactions, commands and the like, which name no folder. */
  readonly text?: string | undefined
  readonly now: number
  readonly greeting?: string | undefined
}

/** Returns the reply, if the chat gets one. */
export async function onboardChat(tx: Tx, message: UnroutedMessage): Promise<string | undefined> {
  const { jid, sender, text, greeting } = message
  const now = timestamp(message.now)
  const found = await onboarding.find(tx, { jid })
  if (!found && !(await openOnboarding(tx, jid, sender, now))) return undefined
  const row = found ?? (await onboarding.find(tx, { jid }))
  if (row?.status !== 'awaiting_message') return undefined
  if (row.prompted_at === undefined) {
    await onboarding.update(tx, { jid }, { prompted_at: now, attempts: 0 })
    return `${greeting ?? GREETING} ${PROMPT}`
  }
  if (text === undefined || row.attempts >= ANSWERED_NAMES_MAX) return undefined
  if (!RoutableJid.safeParse(jid).success) return undefined
  const request = await requestFolder(tx, row, { folder: nameInReply(text), by: sender, now })
  return request.kind === 'fault' ? request.text : queuedText(request.folder)
}

const GREETING = 'Hello! This chat has no folder yet.'
export const PROMPT = 'To ask for a folder, reply with a name for it, such as ada or team/ada.'

function queuedText(folder: string): string {
  return `Your request for the folder ${folder} is noted. You will be told here when it is decided.`
}

/** Removes the mention of the agent, quotes and a final period, which people write around a name. */
export function nameInReply(text: string): string {
  const name = text.trim().replace(/^(?:@\S+|<@[^>\s]+>)[,:]?\s+/, '')
  return trimLeading(trimTrailing(name, '`\'".'), '`\'"')
}
