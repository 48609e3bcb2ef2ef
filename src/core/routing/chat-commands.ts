// Step 6 of routing: runs a chat command such as /new or /status. Most are answered immediately, without a turn. Commands
// that concern the instance need an operator, identified by the platform. See docs/decisions.md#injected-messages.
import { timestamp } from '../../lib/clock.ts'
import { shellQuote } from '../../lib/text/shell-quote.ts'
import type { Tx } from '../../store/engine.ts'
import { integer, queryOne } from '../../store/statement.ts'
import { decideHeldCall } from '../access/approval-decisions.ts'
import { listHeldCalls } from '../access/approvals.ts'
import { isOperator } from '../access/policy.ts'
import { ROOT_FOLDER } from '../access/tiers.ts'
import { groups } from '../groups/groups.ts'
import { onboardingGates } from '../people/onboarding-gates.ts'
import { conversations, forceNewSession } from '../turns/conversations.ts'
import { IS_OPEN } from '../turns/turn-rules.ts'
import { stopTurns } from '../turns/turns.ts'
import type { ChatCommandName, MessageDirective } from './message-directive.ts'
import { displayTopic, type MessagePlacement, type RoutingContext, type RoutingDecision } from './routing-decision.ts'

type ChatCommand = Extract<MessageDirective, { kind: 'command' }>

interface CommandContext {
  readonly jid: string
  readonly sender: string
  readonly folder: string
  readonly placement: MessagePlacement
  conversationFor(topic: string): string
}

const OPERATOR_COMMANDS: readonly ChatCommandName[] = ['status', 'root', 'invite', 'gate', 'approve', 'reject']

export async function runChatCommand(
  tx: Tx,
  context: RoutingContext,
  origin: CommandContext,
  command: ChatCommand,
): Promise<RoutingDecision> {
  const { folder, placement } = origin
  const isFromOperator = isChatOperator(context, origin.sender)
  if (OPERATOR_COMMANDS.includes(command.name) && !isFromOperator)
    return answer(origin, `/${command.name} is only for operators of this instance.`)
  switch (command.name) {
    case 'new': {
      const topic = command.topic === undefined ? placement.topic : origin.conversationFor(command.topic)
      await forceNewSession(tx, folder, topic, timestamp(context.writeContext.clock.now()))
      if (command.rest !== '') return { ...placement, kind: 'turn', folder, topic }
      return answer(origin, displayTopic(topic) === '' ? 'Session cleared.' : 'Topic session cleared.')
    }
    case 'root':
      return startRootTurn(tx, origin, command.rest)
    case 'stop': {
      // Only turns that reply to this chat and topic.
      const stopped = await stopTurns(tx, { jid: origin.jid, chat_topic: placement.chat_topic })
      return answer(origin, stopped > 0 ? 'Stopping.' : 'No turn is running for this chat.')
    }
    case 'chatid':
      return answer(origin, origin.jid)
    case 'ping':
      return answer(origin, await describePing(tx, origin, isFromOperator))
    case 'status':
      return answer(origin, await describeStatus(tx, context))
    case 'help':
      return answer(origin, [...HELP, ...(isFromOperator ? OPERATOR_HELP : [])].join('\n'))
    case 'invite':
      return answer(origin, describeInvite(context, folder, command.rest))
    case 'gate':
      return answer(origin, await describeGates(tx, context, command.rest))
    case 'approve':
    case 'reject':
      return answer(origin, await decideApproval(tx, context, origin.sender, command.name === 'approve', command.rest))
  }
}

/** Injected senders and anonymous visitors are never operators, even if a membership names them. */
function isChatOperator({ policy }: RoutingContext, sender: string): boolean {
  return !/^(injected|anon):/.test(sender) && isOperator(policy, sender)
}

function answer({ placement, folder }: CommandContext, reply: string): RoutingDecision {
  return { ...placement, kind: 'end', outcome: 'answered', folder, reply }
}

/** Starts one turn of the root's agent, which replies to this chat. */
async function startRootTurn(tx: Tx, origin: CommandContext, rest: string): Promise<RoutingDecision> {
  if (rest === '') return answer(origin, 'Missing text. Usage: /root <text>')
  if (!(await groups.find(tx, { folder: ROOT_FOLDER })))
    return answer(origin, `This instance has no folder ${ROOT_FOLDER}.`)
  return { ...origin.placement, kind: 'turn', folder: ROOT_FOLDER, topic: '', verb: 'root' }
}

async function describePing(tx: Tx, { folder, placement }: CommandContext, isFromOperator: boolean): Promise<string> {
  const session = (await conversations.find(tx, { folder, topic: placement.topic }))?.session_id
  const lines = ['pong', `folder: ${folder}`, `session: ${session?.slice(0, 8) ?? 'none'}`]
  if (!isFromOperator) return lines.join('\n')
  const { running, groups: all } = await countWork(tx)
  return [...lines, `running: ${running}`, `groups: ${all}`].join('\n')
}

async function describeStatus(tx: Tx, { instance }: RoutingContext): Promise<string> {
  const { groups: all, running, waiting, unsent, failed } = await countWork(tx)
  return [
    `instance: ${instance}`,
    `groups: ${all}`,
    `turns running: ${running}`,
    `messages waiting: ${waiting}`,
    `replies to send: ${unsent}, failed: ${failed}`,
  ].join('\n')
}

async function countWork(tx: Tx) {
  return queryOne(
    tx,
    { groups: integer, running: integer, waiting: integer, unsent: integer, failed: integer },
    `select (select count(*) from groups) as groups,
       (select count(*) from turns where ${IS_OPEN} and state = 'running') as running,
       (select count(*) from inbox where state = 'waiting') as waiting,
       (select count(*) from outbox where state in ('pending', 'sending')) as unsent,
       (select count(*) from outbox where state in ('failed', 'unknown')) as failed`,
  )
}

const HELP = [
  '/new [#topic] [text]: start a new session',
  '/stop: stop the running turn of this chat',
  '/ping: check that the agent is here; shows its folder and session',
  '/chatid: show the id of this chat',
  '@name text: ask another folder; @name alone switches to it, @ switches back',
  '#name text: ask in another topic; #name alone switches to it, # switches back',
]
const OPERATOR_HELP = [
  '/status: show running turns, waiting messages and replies to send',
  '/root text: ask the root folder once',
  '/invite [n]: show the command that creates an invite',
  '/gate list|add|rm|enable|disable: list onboarding gates, or show the command that changes them',
  '/approve [id], /reject [id]: decide a tool call that waits for approval; without an id, list them',
]

/** Lists the waiting calls if the id is empty. */
async function decideApproval(
  tx: Tx,
  { writeContext }: RoutingContext,
  by: string,
  isApproved: boolean,
  id: string,
): Promise<string> {
  if (id === '') {
    const waiting = await listHeldCalls(tx, writeContext.clock.now())
    if (waiting.length === 0) return 'No tool call is waiting for approval.'
    return waiting.map((action) => `${action.id}: ${action.tool} by ${action.folder} ${action.summary}`).join('\n')
  }
  const action = await decideHeldCall(tx, writeContext, { id, by, isApproved })
  if (!action) return `No tool call with the id ${id.slice(0, 40)} is waiting for approval.`
  return `${isApproved ? 'Approved' : 'Rejected'}: ${action.tool} by ${action.folder}.`
}

/** Does not create the invite: everyone in the chat could use its link to become an administrator. */
function describeInvite({ instance, showCommands }: RoutingContext, folder: string, rest: string): string {
  if (!/^([1-9]\d{0,5})?$/.test(rest)) return 'The number of uses must be between 1 and 999999. Usage: /invite [n]'
  const command = showCommands(`svc invite ${instance} create '${folder}/**' -n ${rest || 1}`)
  return `An invite is a secret and cannot be shown in a chat. Create it with: ${command}`
}

/** Gates are changed only on the command line, which is audited. */
async function describeGates(tx: Tx, { instance, showCommands }: RoutingContext, rest: string): Promise<string> {
  const [action = 'list', ...more] = rest.split(/\s+/).filter(Boolean)
  if (action === 'list') {
    const rows = await onboardingGates.list(tx)
    if (rows.length === 0) return 'There are no gates.'
    return rows
      .map(({ spec, daily_limit, enabled }) => `${spec}: ${daily_limit} a day${enabled ? '' : ', disabled'}`)
      .join('\n')
  }
  if (!['add', 'rm', 'enable', 'disable'].includes(action)) return 'Usage: /gate list|add|rm|enable|disable'
  const words = [action, ...more].map(shellQuote).join(' ')
  return `Change gates on the command line: ${showCommands(`svc gate ${instance} ${words}`)}`
}
