// Chats of signed-in people with a folder: each is a hidden link that works only for its person.
import { hash } from 'node:crypto'
import { type Clock, type Random, timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import type { Keyring } from '../secrets/keyring.ts'
import { createToken, createTokenProof, hashToken } from './link-token.ts'
import { routeTokens } from './route-tokens.ts'

/** Suffixes of chats of people, which no other link can have. */
const PERSON_SUFFIX = /^u-[0-9a-f]{12}$/

export function isPersonSuffix(suffix: string): boolean {
  return PERSON_SUFFIX.test(suffix)
}

export function personChatJid(folder: string, sub: string): string {
  return `web:${folder}/u-${hash('sha256', sub, 'hex').slice(0, 12)}`
}

export interface PersonChat {
  readonly jid: string
  readonly path: string
  readonly created: boolean
}

interface ChatHost {
  readonly clock: Clock
  readonly random: Random
  readonly keyring: Keyring
}

/** Finds or creates the chat. Its token is not kept: only the proof of the row opens it. */
export async function ensurePersonChat(tx: Tx, host: ChatHost, folder: string, sub: string): Promise<PersonChat> {
  const jid = personChatJid(folder, sub)
  const isNew = !(await routeTokens.find(tx, { jid }))
  const created =
    isNew &&
    (await routeTokens.insertIfMissing(tx, {
      token_hash: hashToken(createToken(host.random)),
      jid,
      owner_folder: folder,
      target_folder: folder,
      created_at: timestamp(host.clock.now()),
      person: sub,
    }))
  const row = await routeTokens.find(tx, { jid })
  // A folder may have the name of this chat, or another sub the same hash.
  if (!row || row.person !== sub || row.target_folder !== folder)
    refuse('conflict', `the chat ${jid} belongs to another link`, 'ask an operator to revoke that link')
  return { jid, path: `/chat/${createTokenProof(row.token_hash, host.keyring)}/`, created }
}
