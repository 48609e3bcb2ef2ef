// Pairing: an unknown person who writes directly to an account gets a short code, and an operator approves it. See
// docs/decisions.md#direct-chats.
import { type Random, timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { integer, queryOne } from '../../store/statement.ts'
import { platformOf } from '../delivery/channel.ts'
import { type OnboardingRow, onboarding, openOnboarding } from './onboarding.ts'
import { canonicalUserCode, createUserCode } from './user-codes.ts'

const CODE_LENGTH = 6
export const PAIRING_TTL_MS = 3_600_000
/** Codes of one account that are open at a time. */
export const PAIRINGS_MAX = 3

interface DirectChat {
  readonly jid: string
  readonly sender: string
  readonly now: number
}

/** Returns a code for a chat that has none; undefined while it has one, or while the account has too many. */
export async function openPairing(tx: Tx, random: Random, chat: DirectChat): Promise<string | undefined> {
  const { jid, sender } = chat
  const now = timestamp(chat.now)
  const found = await onboarding.find(tx, { jid })
  if (!found && !(await openOnboarding(tx, jid, sender, now))) return undefined
  const row = found ?? (await onboarding.find(tx, { jid }))
  if (row?.status !== 'awaiting_message' || isOpen(row, now)) return undefined
  if ((await countOpen(tx, platformOf(jid), now)) >= PAIRINGS_MAX) return undefined
  let code = createUserCode(random, CODE_LENGTH)
  while (await onboarding.find(tx, { pairing_code: code })) code = createUserCode(random, CODE_LENGTH)
  const pairing_expires_at = timestamp(chat.now + PAIRING_TTL_MS)
  await onboarding.update(tx, { jid }, { pairing_code: code, pairing_expires_at, prompted_at: now })
  return code
}

/** The chat of an open code, as a person typed it. */
export async function findPaired(tx: Tx, typed: string, now: string): Promise<OnboardingRow | undefined> {
  const pairing_code = canonicalUserCode(typed, CODE_LENGTH)
  const row = pairing_code === undefined ? undefined : await onboarding.find(tx, { pairing_code })
  return row && isOpen(row, now) ? row : undefined
}

function isOpen({ pairing_code, pairing_expires_at = '' }: OnboardingRow, now: string): boolean {
  return pairing_code !== undefined && pairing_expires_at > now
}

async function countOpen(tx: Tx, platform: string, now: string): Promise<number> {
  // ";" is the character after ":": it ends the range of the platform's JIDs.
  const sql = `select count(*) as open from onboarding
    where pairing_code is not null and pairing_expires_at > $1 and jid >= $2 and jid < $3`
  return (await queryOne(tx, { open: integer }, sql, [now, `${platform}:`, `${platform};`])).open
}
