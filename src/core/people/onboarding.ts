// Onboarding state of chats that are not routed to a folder yet. Created when the first message of such a chat is routed.
import { z } from 'zod'
import { Table } from '../../store/table.ts'
import { Jid, line, Timestamp } from '../values.ts'

export const Onboarding = z
  .object({
    jid: Jid,
    status: z.enum(['awaiting_message', 'token_used', 'queued', 'approved', 'refused']),
    user_sub: line(256).optional(),
    gate: line(255).optional(),
    created: Timestamp.meta({ readOnly: true }),
    prompted_at: Timestamp.meta({ readOnly: true }).optional(),
    queued_at: Timestamp.meta({ readOnly: true }).optional(),
    admitted_at: Timestamp.meta({ readOnly: true }).optional(),
  })
  .meta({ id: 'Onboarding' })

export const onboarding = new Table({
  name: 'onboarding',
  row: Onboarding,
  key: 'jid',
  storage: [
    `create table onboarding (
       jid text primary key, status text not null, user_sub text, gate text, created text not null,
       prompted_at text, queued_at text, admitted_at text)`,
  ],
})
