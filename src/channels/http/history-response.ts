// Parses the chat history that an adapter returns.
import { z } from 'zod'
import type { PlatformHistory } from '../../core/delivery/channel.ts'
import { timestamp } from '../../lib/clock.ts'

const Id = z.union([z.string(), z.number().transform(String)])
/** Seconds since 1970 or RFC 3339. */
const Timestamp = z.union([
  z
    .number()
    .min(0)
    .max(8.64e12)
    .transform((seconds) => timestamp(Math.round(seconds * 1000))),
  z.iso.datetime({ offset: true }),
])

const History = z.object({
  source: z.string().optional(),
  cap: Id.optional(),
  messages: z.array(
    z.object({
      id: Id,
      sender: z.string(),
      sender_name: z.string().optional(),
      content: z.string(),
      timestamp: Timestamp,
      topic: z.string().optional(),
      reply_to: Id.optional(),
      is_from_me: z.boolean().optional(),
    }),
  ),
})

/** Sorts the messages oldest first; undefined if the body is not a history. */
export function parseAdapterHistory(body: unknown): PlatformHistory | undefined {
  const { data } = History.safeParse(body)
  if (!data) return undefined
  const messages = data.messages.map(({ sender_name, reply_to, is_from_me, ...message }) => ({
    ...message,
    senderName: sender_name,
    replyTo: reply_to,
    isFromMe: is_from_me,
  }))
  const sorted = messages.toSorted((a, b) => Date.parse(a.timestamp) - Date.parse(b.timestamp))
  return { messages: sorted, ...(data.cap === undefined ? {} : { cap: data.cap }) }
}
