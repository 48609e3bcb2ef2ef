// Steering: what a message says about where it goes, and the commands that are answered at once. Nothing here reads the
// store: whether a name is a folder, and who may use a command, is decided where it is carried out.

import { folderBaseName, ROOT_FOLDER } from '../access/tiers.ts'
import type { Envelope } from '../messages/envelopes.ts'

/** Those that take nothing count only when they are the whole message. */
const ALONE = ['ping', 'chatid', 'stop', 'status', 'help'] as const
const WITH_REST = ['new', 'root', 'invite', 'gate', 'approve', 'reject'] as const
export const COMMANDS = [...ALONE, ...WITH_REST] as const
export type ChatCommandName = (typeof COMMANDS)[number]

/** The name is absent where the choice is cleared. */
export type MessageDirective =
  | { readonly kind: 'sticky_folder' | 'sticky_topic'; readonly name?: string | undefined }
  | {
      readonly kind: 'command'
      readonly name: ChatCommandName
      readonly rest: string
      /** Of `/new #topic`. */
      readonly topic?: string | undefined
    }
  | { readonly kind: 'folder' | 'topic'; readonly name: string; readonly rest: string }
  | { readonly kind: 'plain' }

export interface DirectiveOptions {
  /** What the agent is called in chats, so that `@name` before a command is left out. */
  readonly assistantName?: string | undefined
}

const FOLDER = String.raw`[A-Za-z0-9][A-Za-z0-9._-]{0,63}(?:\/[A-Za-z0-9][A-Za-z0-9._-]{0,63}){0,7}`
const TOPIC = String.raw`[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}`
const COMMAND = /^(?:\/([a-z]+)|\\(new))(?:@[\w.-]{1,64})?(?=\s|$)\s*/iu
const NEW_TOPIC = new RegExp(`^#(${TOPIC})(?=\\s|$)\\s*`, 'u')
const STICKY = new RegExp(`^(?:@(${FOLDER})?|#(${TOPIC})?)$`, 'u')
const PREFIX = new RegExp(`^(?:@(${FOLDER})|#(${TOPIC}))\\s+(?=\\S)`, 'u')
const PLAIN: MessageDirective = { kind: 'plain' }

export function parseDirective(text: string, { assistantName }: DirectiveOptions = {}): MessageDirective {
  const body = withoutAddress(text.trim(), assistantName)
  if (body === '') return PLAIN
  const command = readCommand(body)
  if (command) return command
  const sticky = STICKY.exec(body)
  if (sticky) {
    const name = sticky[1] ?? sticky[2]
    return { kind: body.startsWith('@') ? 'sticky_folder' : 'sticky_topic', ...(name === undefined ? {} : { name }) }
  }
  const prefix = PREFIX.exec(body)
  if (!prefix) return PLAIN
  const [whole, folder, topic] = prefix
  const rest = body.slice(whole.length)
  if (folder !== undefined) return { kind: 'folder', name: folder, rest }
  return topic === undefined ? PLAIN : { kind: 'topic', name: topic, rest }
}

/** A leading `[tag]`, and the name of whom it is said to. */
function withoutAddress(text: string, assistantName: string | undefined): string {
  const untagged = text.replace(/^\[[^\]\n]{1,64}\]\s*/, '')
  if (!assistantName || !untagged.startsWith('@')) return untagged
  const name = untagged.slice(1, 1 + assistantName.length)
  const after = untagged.slice(1 + assistantName.length)
  return name.toLowerCase() === assistantName.toLowerCase() && /^[,:]?\s/.test(after)
    ? after.replace(/^[,:]?\s+/, '')
    : untagged
}

function readCommand(body: string): MessageDirective | undefined {
  const [whole, slash, backslash] = COMMAND.exec(body) ?? []
  const word = (slash ?? backslash)?.toLowerCase()
  const name = COMMANDS.find((known) => known === word)
  if (whole === undefined || name === undefined) return undefined
  const rest = body.slice(whole.length)
  if (ALONE.some((known) => known === name)) return rest === '' ? { kind: 'command', name, rest } : undefined
  const topic = name === 'new' ? NEW_TOPIC.exec(rest) : null
  if (!topic?.[1]) return { kind: 'command', name, rest }
  return { kind: 'command', name, rest: rest.slice(topic[0].length), topic: topic[1] }
}

export interface DirectiveSender {
  readonly jid: string
  readonly sender: string
  readonly envelope?: Pick<Envelope, 'verb' | 'task_id' | 'from_turn' | 'return_jid' | 'as_folder'> | undefined
}

/** Only what a person says in a chat steers: never a webhook, a schedule or an agent (decision A6). */
export function mayUseDirectives({ jid, sender, envelope }: DirectiveSender): boolean {
  if (!jid.includes(':') || jid.startsWith('hook:')) return false
  if (/^(timed|delegate|escalate)($|-)|^(injected|folder):/.test(sender)) return false
  if (!envelope) return true
  const { verb, task_id, from_turn, return_jid, as_folder } = envelope
  if ([task_id, from_turn, return_jid, as_folder].some((each) => each !== undefined)) return false
  return verb === 'message' || verb === 'mention' || verb === 'reply'
}

/** Where a message was taken to. */
export interface DirectiveContext extends DirectiveOptions {
  readonly folder: string
  readonly topic: string
}

/** What the agent is shown of a message that may steer: without the prefix that brought it here, or the `/new` before it. */
export function stripDirective(text: string, { folder, topic, assistantName }: DirectiveContext): string {
  const read = parseDirective(text, { assistantName })
  const isShort =
    (read.kind === 'command' && (read.name === 'new' || (read.name === 'root' && folder === ROOT_FOLDER))) ||
    (read.kind === 'folder' && (folder === read.name || folderBaseName(folder) === folderBaseName(read.name))) ||
    (read.kind === 'topic' && topic === read.name)
  return isShort && 'rest' in read && read.rest !== '' ? read.rest : text
}
