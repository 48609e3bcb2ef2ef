// The three MCP tools that people use at a link or with a bearer token. See docs/decisions.md#mcp-at-a-link.
import { z } from 'zod'
import type { HistoryMessage } from '../../../core/chats/chat-history.ts'
import { Folder, pageLimit } from '../../../core/values.ts'
import { parse } from '../../../lib/text/schema-parser.ts'
import type { Tool } from '../../../registry/tool.ts'
import { type MessageInput, readMessageInput } from '../chat-body.ts'

export interface NamedGroup {
  readonly folder: string
  readonly name: string
}

/** What the caller may do with which groups. An omitted folder is the caller's default. */
export interface GroupMessaging {
  groups(): Promise<{ readonly groups: readonly NamedGroup[]; readonly truncated?: true }>
  send(
    folder: string | undefined,
    message: MessageInput,
  ): Promise<{ readonly turn_id: string; readonly folder: string }>
  history(
    folder: string | undefined,
    request: { readonly topic: string | undefined; readonly limit: number },
  ): Promise<{ readonly messages: readonly HistoryMessage[]; readonly folder: string }>
}

const folder = Folder.optional().describe('Folder of the group; list_groups shows them')

const NoArguments = z.strictObject({})
const Send = z.strictObject({
  content: z.string().describe('Text of the message'),
  topic: z.string().optional().describe('At most 128 characters; the main topic if omitted'),
  folder,
})
const GetHistory = z.strictObject({
  topic: z.string().optional().describe('Only messages of this topic; empty is the main topic'),
  limit: pageLimit(50, 100),
  folder,
})

export function messagingTools<C>(messagingOf: (call: C) => GroupMessaging): Tool<C>[] {
  return [
    {
      name: 'list_groups',
      when: 'See which groups you can send messages to.',
      input: NoArguments,
      run: async (call, args) => {
        parse(NoArguments, args)
        return messagingOf(call).groups()
      },
    },
    {
      name: 'send',
      when: 'Send a message to a group. The reply comes later: get_history shows it with the same turn_id.',
      input: Send,
      run: async (call, args) => {
        const { folder: target, ...fields } = parse(Send, args)
        const message = readMessageInput(fields)
        const { turn_id, folder } = await messagingOf(call).send(target, message)
        return { turn_id, topic: message.topic ?? '', folder }
      },
    },
    {
      name: 'get_history',
      when: 'Read the messages of a group, newest first.',
      input: GetHistory,
      run: async (call, args) => {
        const { folder: target, topic, limit } = parse(GetHistory, args)
        const { messages, folder } = await messagingOf(call).history(target, { topic, limit })
        return { messages, count: messages.length, folder }
      },
    },
  ]
}
