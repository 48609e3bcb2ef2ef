// Onboarding: chats without a route and signed-in people without a grant, who ask for a folder. A person's row has the account
// as its JID. See docs/decisions.md#onboarding.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { execute, integer, queryOne } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { platformOf } from '../delivery/channel.ts'
import { Folder, Jid, line, Timestamp } from '../values.ts'

export const Onboarding = z
  .object({
    jid: Jid,
    status: z.enum(['awaiting_message', 'token_used', 'queued', 'approved', 'refused']),
    user_sub: line(256).optional().describe('The sender or account that will administer the folder'),
    gate: line(255).optional().describe('The gate that will admit it; absent: an operator decides'),
    created: Timestamp.meta({ readOnly: true }),
    prompted_at: Timestamp.meta({ readOnly: true }).optional(),
    queued_at: Timestamp.meta({ readOnly: true }).optional(),
    admitted_at: Timestamp.meta({ readOnly: true }).optional(),
    folder: Folder.optional().describe('The folder that was asked for, or was given'),
    position: z.int().meta({ readOnly: true }).optional().describe('Orders the rows that wait'),
    attempts: z.int().meta({ readOnly: true }).describe('How many names were refused since the last prompt'),
    pairing_code: line(6).meta({ readOnly: true }).optional().describe('What an unknown person shows to an operator'),
    pairing_expires_at: Timestamp.meta({ readOnly: true }).optional(),
    prepared: Folder.meta({ readOnly: true }).optional().describe('Folder whose files exist before its group does'),
  })
  .meta({ id: 'Onboarding' })

export type OnboardingRow = z.output<typeof Onboarding>

export const onboarding = new Table({
  name: 'onboarding',
  row: Onboarding,
  key: 'jid',
  storage: [
    `create table onboarding (
       jid text primary key, status text not null, user_sub text, gate text, created text not null,
       prompted_at text, queued_at text, admitted_at text)`,
    'alter table onboarding add column folder text',
    'alter table onboarding add column position bigint',
    'alter table onboarding add column attempts integer not null default 0',
    'alter table onboarding add column prepared text',
    `create index onboarding_queue on onboarding (position) where status = 'queued'`,
    `create index onboarding_of_gate on onboarding (gate, position) where status = 'queued'`,
    `create index onboarding_of_folder on onboarding (folder) where status = 'queued'`,
    `create index onboarding_open on onboarding (jid) where status in ('awaiting_message', 'queued')`,
    `create index onboarding_silent on onboarding (created, jid) where status = 'awaiting_message'`,
    'create unique index onboarding_prepared on onboarding (prepared) where prepared is not null',
    'alter table onboarding add column pairing_code text',
    'alter table onboarding add column pairing_expires_at text',
    'create unique index onboarding_pairing on onboarding (pairing_code) where pairing_code is not null',
    'create index onboarding_pairing_expiry on onboarding (pairing_expires_at) where pairing_code is not null',
  ],
})

/** Open rows of one platform, so that a flood of chats neither fills the store nor slows down routing. */
export const OPEN_ROWS_MAX = 1000

/**
 * Adds a row for a chat or person without one. If too many of its platform are open, the oldest one that never named a folder
 * makes room; false if there is none.
 */
export async function openOnboarding(tx: Tx, jid: string, user_sub: string, now: string): Promise<boolean> {
  const platform = platformOf(jid)
  // ";" is the character after ":": it ends the range of the platform's JIDs.
  const range = [`${platform}:`, `${platform};`] as const
  const { open } = await queryOne(
    tx,
    { open: integer },
    `select count(*) as open from (select 1 from onboarding where status in ('awaiting_message', 'queued')
       and jid >= $1 and jid < $2 limit $3) as counted`,
    [...range, OPEN_ROWS_MAX],
  )
  if (open >= OPEN_ROWS_MAX) {
    const removed = await execute(
      tx,
      `delete from onboarding where jid = (select jid from onboarding where status = 'awaiting_message'
         and jid >= $1 and jid < $2 and prepared is null order by created, jid limit 1)`,
      range,
    )
    if (removed === 0) return false
  }
  return onboarding.insertIfMissing(tx, { jid, status: 'awaiting_message', user_sub, created: now, attempts: 0 })
}
