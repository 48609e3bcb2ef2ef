// In the turn of a visitor's chat, the JID of the chat's link means that chat: the agent may have it from its instructions.
import { isVisitorChat, linkJidOf } from '../core/links/visitor-chats.ts'
import { findTurnOfConnection } from '../core/turns/turns.ts'
import type { RequestContext } from './context.ts'
import type { NamedVerb } from './resource.ts'

/** The arguments of tools that name a chat. */
const CHAT_ARGUMENTS: ReadonlySet<string> = new Set(['chatJid', 'chat_jid', 'targetJid', 'jid', 'scope'])

/** Replaces the link by the chat of the turn, in tools that use chats: those of reach `all` manage links. */
export async function nameTurnChat<I extends object>(
  { host, caller, turn }: RequestContext,
  { reach = 'all' }: Pick<NamedVerb, 'reach'>,
  input: I,
): Promise<I> {
  const named = Object.entries(input).filter(([name, value]) => CHAT_ARGUMENTS.has(name) && isLink(value))
  if (named.length === 0 || reach === 'all' || caller.kind !== 'agent') return input
  const jid = (await host.engine.read((tx) => findTurnOfConnection(tx, caller.folder, turn)))?.jid
  if (jid === undefined || !isVisitorChat(jid)) return input
  const meant = named.filter(([, value]) => value === linkJidOf(jid)).map(([name]) => [name, jid])
  return { ...input, ...Object.fromEntries(meant) }
}

function isLink(value: unknown): boolean {
  return typeof value === 'string' && value.startsWith('web:')
}
