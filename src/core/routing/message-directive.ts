// Step 5 of routing: parses the directive at the start of a message (`@folder`, `#topic`) or its command (`/new`). Does not
// read the store: later steps check whether a folder exists and who may use a command.
import { folderBaseName, ROOT_FOLDER } from '../access/tiers.ts'
import type { Envelope } from '../messages/envelopes.ts'
import { decodeContent } from '../messages/messages.ts'
import type { MessageWithEnvelope } from './routing-decision.ts'

/** Commands without arguments. With text after it, such a word is plain text. */
const BARE_COMMANDS = ['ping', 'chatid', 'stop', 'status', 'help'] as const
const ARGUMENT_COMMANDS = ['new', 'root', 'invite', 'gate', 'approve', 'reject'] as const
export const CHAT_COMMANDS = [...BARE_COMMANDS, ...ARGUMENT_COMMANDS] as const
export type ChatCommandName = (typeof CHAT_COMMANDS)[number]

export type MessageDirective =
  /** Without a name, resets the choice. */
  | { readonly kind: 'sticky_folder' | 'sticky_topic'; readonly name?: string | undefined }
  | {
      readonly kind: 'command'
      readonly name: ChatCommandName
      readonly rest: string
      /** From `/new #topic`. */
      readonly topic?: string | undefined
    }
  | { readonly kind: 'folder' | 'topic'; readonly name: string; readonly rest: string }
  | { readonly kind: 'plain' }

interface DirectiveOptions {
  /** The agent's name in chats. `@name` before a directive is removed. */
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
  const body = removeAddress(text.trim(), assistantName)
  if (body === '') return PLAIN
  const command = parseCommand(body)
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

/** Removes a leading `[tag]` and the agent's name. */
function removeAddress(text: string, assistantName: string | undefined): string {
  const untagged = text.replace(/^\[[^\]\n]{1,64}\]\s*/, '')
  if (!assistantName || !untagged.startsWith('@')) return untagged
  const name = untagged.slice(1, 1 + assistantName.length)
  const after = untagged.slice(1 + assistantName.length)
  return name.toLowerCase() === assistantName.toLowerCase() && /^[,:]?\s/.test(after)
    ? after.replace(/^[,:]?\s+/, '')
    : untagged
}

function parseCommand(body: string): MessageDirective | undefined {
  const [whole, slash, backslash] = COMMAND.exec(body) ?? []
  const word = (slash ?? backslash)?.toLowerCase()
  const name = CHAT_COMMANDS.find((known) => known === word)
  if (whole === undefined || name === undefined) return undefined
  const rest = body.slice(whole.length)
  if (BARE_COMMANDS.some((known) => known === name)) return rest === '' ? { kind: 'command', name, rest } : undefined
  const topic = name === 'new' ? NEW_TOPIC.exec(rest) : null
  if (!topic?.[1]) return { kind: 'command', name, rest }
  return { kind: 'command', name, rest: rest.slice(topic[0].length), topic: topic[1] }
}

export interface DirectiveSender {
  readonly jid: string
  readonly sender: string
  readonly envelope?: Pick<Envelope, 'verb' | 'task_id' | 'from_turn' | 'return_jid' | 'as_folder'> | undefined
}

/** Only messages of people in chats: not those of webhooks, tasks or agents. See docs/decisions.md#injected-messages. */
export function mayUseDirectives({ jid, sender, envelope }: DirectiveSender): boolean {
  if (!jid.includes(':') || jid.startsWith('hook:')) return false
  if (/^(timed|delegate|escalate)($|-)|^(injected|folder):/.test(sender)) return false
  if (!envelope) return true
  const { verb, task_id, from_turn, return_jid, as_folder } = envelope
  if ([task_id, from_turn, return_jid, as_folder].some((each) => each !== undefined)) return false
  return verb === 'message' || verb === 'mention' || verb === 'reply'
}

/** Undefined if the sender may not use directives. */
export function readMessageDirective(
  { assistantName }: DirectiveOptions,
  { message, envelope }: MessageWithEnvelope,
): MessageDirective | undefined {
  const { jid, sender, content } = message
  return mayUseDirectives({ jid, sender, envelope })
    ? parseDirective(decodeContent(content), { assistantName })
    : undefined
}

interface DirectiveContext extends DirectiveOptions {
  readonly folder: string
  readonly topic: string
}

/** The text shown to the agent: without the directive that routed the message here, and without `/new` or `/root`. */
export function stripDirective(text: string, { folder, topic, assistantName }: DirectiveContext): string {
  const directive = parseDirective(text, { assistantName })
  const isApplied =
    (directive.kind === 'command' &&
      (directive.name === 'new' || (directive.name === 'root' && folder === ROOT_FOLDER))) ||
    (directive.kind === 'folder' && folderBaseName(folder) === folderBaseName(directive.name)) ||
    (directive.kind === 'topic' && topic === directive.name)
  return isApplied && 'rest' in directive && directive.rest !== '' ? directive.rest : text
}
