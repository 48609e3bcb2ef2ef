// The three tools that are entered by a link or by a bearer (decision L17).
import { z } from 'zod'
import type { Remembered } from '../../core/history.ts'
import { Folder, limit } from '../../core/values.ts'
import { parse } from '../../lib/parse.ts'
import type { Tool } from '../../registry/tool.ts'
import { readSaid, type Spoken } from './chat-body.ts'

export interface NamedGroup {
  readonly folder: string
  readonly name: string
}

/** With whom whoever asks can speak, and how. A folder that is left out is the one that is meant anyway. */
export interface Speaker {
  groups(): Promise<{ readonly groups: readonly NamedGroup[]; readonly truncated?: true }>
  send(folder: string | undefined, spoken: Spoken): Promise<{ readonly turn_id: string; readonly folder: string }>
  history(
    folder: string | undefined,
    request: { readonly topic: string | undefined; readonly limit: number },
  ): Promise<{ readonly messages: readonly Remembered[]; readonly folder: string }>
}

const folder = Folder.optional().describe('Which group; list_groups says which there are')

const Nothing = z.strictObject({})
const Send = z.strictObject({
  content: z.string().describe('What to say'),
  topic: z.string().optional().describe('At most 128 characters; without one it is the main topic'),
  folder,
})
const GetHistory = z.strictObject({
  topic: z.string().optional().describe('Only this topic; empty is the main one'),
  limit: limit(50, 100),
  folder,
})

export function speakingTools<A>(speakerOf: (asking: A) => Speaker): Tool<A>[] {
  return [
    {
      name: 'list_groups',
      when: 'See which groups you can speak with here.',
      input: Nothing,
      run: async (asking, args) => {
        parse(Nothing, args)
        return speakerOf(asking).groups()
      },
    },
    {
      name: 'send',
      when: 'Say something to a group. Its answer comes later: get_history shows it with the same turn_id.',
      input: Send,
      run: async (asking, args) => {
        const { folder: named, ...said } = parse(Send, args)
        const spoken = readSaid(said)
        const { turn_id, folder } = await speakerOf(asking).send(named, spoken)
        return { turn_id, topic: spoken.topic ?? '', folder }
      },
    },
    {
      name: 'get_history',
      when: 'Read what was said with a group, the newest first.',
      input: GetHistory,
      run: async (asking, args) => {
        const { folder: named, topic, limit } = parse(GetHistory, args)
        const { messages, folder } = await speakerOf(asking).history(named, { topic, limit })
        return { messages, count: messages.length, folder }
      },
    },
  ]
}
