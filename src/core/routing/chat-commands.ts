// The commands of a chat, answered at once. Whoever sends one is named by the platform; what changes the instance is for
// operators alone, and nobody is one by saying so (decision A6).
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { integer, queryOne } from '../../store/statement.ts'
import { decideHeldCall, listHeldCalls } from '../access/approvals.ts'
import { isOperator } from '../access/policy.ts'
import { ROOT_FOLDER } from '../access/tiers.ts'
import { groups } from '../groups/groups.ts'
import { onboardingGates } from '../people/onboarding-gates.ts'
import { findConversation, forceNewSession } from '../turns/conversations.ts'
import { IS_OPEN } from '../turns/turn-rules.ts'
import { stopTurns } from '../turns/turns.ts'
import type { ChatCommandName, MessageDirective } from './message-directive.ts'
import { displayTopic, type MessagePlacement, type RoutingContext, type RoutingDecision } from './routing-decision.ts'

type ChatCommand = Extract<MessageDirective, { kind: 'command' }>

/** Where a command was given, and whose conversation that is. */
export interface CommandContext {
  readonly jid: string
  readonly sender: string
  readonly folder: string
  readonly placement: MessagePlacement
  /** The conversation of a topic that is named in this chat. */
  conversationFor(topic: string): string
}

const FOR_OPERATORS: readonly ChatCommandName[] = ['status', 'root', 'invite', 'gate', 'approve', 'reject']

export async function runChatCommand(
  tx: Tx,
  world: RoutingContext,
  given: CommandContext,
  command: ChatCommand,
): Promise<RoutingDecision> {
  const { folder, placement } = given
  const mayAll = isOperatorHere(world, given.sender)
  if (FOR_OPERATORS.includes(command.name) && !mayAll)
    return answer(given, `Sorry, /${command.name} is for operators of this instance.`)
  switch (command.name) {
    case 'new': {
      const topic = command.topic === undefined ? placement.topic : given.conversationFor(command.topic)
      await forceNewSession(tx, folder, topic, timestamp(world.writeContext.clock.now()))
      if (command.rest !== '') return { ...placement, kind: 'turn', folder, topic }
      return answer(given, displayTopic(topic) === '' ? 'Session cleared.' : 'Topic session cleared.')
    }
    case 'root':
      return root(tx, given, command.rest)
    case 'stop':
      return answer(given, (await stop(tx, given)) > 0 ? 'Stopping.' : 'Nothing runs for this chat.')
    case 'chatid':
      return answer(given, given.jid)
    case 'ping':
      return answer(given, await pong(tx, given, mayAll))
    case 'status':
      return answer(given, await status(tx, world))
    case 'help':
      return answer(given, help(mayAll))
    case 'invite':
      return answer(given, invite(world, folder, command.rest))
    case 'gate':
      return answer(given, await gate(tx, world, command.rest))
    case 'approve':
    case 'reject':
      return answer(given, await decideApproval(tx, world, given.sender, command.name === 'approve', command.rest))
  }
}

/** A sender that an agent made up, or a visitor without an account, is never an operator. */
function isOperatorHere({ policy }: RoutingContext, sender: string): boolean {
  return !/^(injected|anon):/.test(sender) && isOperator(policy, sender)
}

function answer({ placement, folder }: CommandContext, say: string): RoutingDecision {
  return { ...placement, kind: 'end', outcome: 'answered', folder, say }
}

/** One turn of the root's agent, which answers in this chat. */
async function root(tx: Tx, given: CommandContext, rest: string): Promise<RoutingDecision> {
  if (rest === '') return answer(given, 'Say what the root is to do: /root <text>')
  if (!(await groups.find(tx, { folder: ROOT_FOLDER })))
    return answer(given, `There is no folder ${ROOT_FOLDER} in this instance.`)
  return { ...given.placement, kind: 'turn', folder: ROOT_FOLDER, topic: '', verb: 'root' }
}

/** Only what is about to answer here: others of the same folder are none of this chat's business. */
async function stop(tx: Tx, { jid, placement }: CommandContext): Promise<number> {
  return stopTurns(tx, { jid, chat_topic: placement.chat_topic })
}

async function pong(tx: Tx, { folder, placement }: CommandContext, mayAll: boolean): Promise<string> {
  const session = (await findConversation(tx, folder, placement.topic))?.session_id
  const lines = ['pong', `folder: ${folder}`, `session: ${session?.slice(0, 8) ?? 'none'}`]
  if (!mayAll) return lines.join('\n')
  const { running, groups: all } = await counts(tx)
  return [...lines, `running: ${running}`, `groups: ${all}`].join('\n')
}

async function status(tx: Tx, { instance }: RoutingContext): Promise<string> {
  const { groups: all, running, waiting, unsent, failed } = await counts(tx)
  return [
    `instance: ${instance}`,
    `groups: ${all}`,
    `turns running: ${running}`,
    `messages waiting: ${waiting}`,
    `answers to be sent: ${unsent}, not sent: ${failed}`,
  ].join('\n')
}

async function counts(tx: Tx) {
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
  '/new [#topic] [text]: start afresh',
  '/stop: stop what runs for this chat',
  '/ping: whether I am here, and who I am',
  '/chatid: the name of this chat',
  '@name text: ask another folder; @name alone stays there, @ goes back',
  '#name text: another topic; #name alone stays there, # goes back',
]
const OPERATORS_HELP = [
  '/status: how the instance is',
  '/root text: ask the root folder',
  '/invite [n]: how to invite people',
  '/gate list|add|rm|enable|disable: who may come in',
  '/approve id, /reject id: decide what is held',
]

function help(mayAll: boolean): string {
  return [...HELP, ...(mayAll ? OPERATORS_HELP : [])].join('\n')
}

/** Without an id: what waits. */
async function decideApproval(
  tx: Tx,
  { writeContext }: RoutingContext,
  by: string,
  isApproved: boolean,
  id: string,
): Promise<string> {
  const held = await listHeldCalls(tx, writeContext.clock.now())
  if (id === '') {
    if (held.length === 0) return 'Nothing is held.'
    return held.map((action) => `${action.id}: ${action.tool} by ${action.folder} ${action.summary}`).join('\n')
  }
  const action = await decideHeldCall(tx, writeContext, { id, by, isApproved })
  if (!action) return `Nothing is held under ${id.slice(0, 40)}.`
  return `${isApproved ? 'Approved' : 'Rejected'}: ${action.tool} by ${action.folder}.`
}

/** The link of an invite makes whoever has it an administrator: it is not written where others read. */
function invite({ instance }: RoutingContext, folder: string, rest: string): string {
  if (!/^([1-9]\d{0,5})?$/.test(rest)) return 'How many may use it is a number: /invite [n]'
  const uses = rest === '' ? '' : ` -n ${rest}`
  return `An invite is a secret and is not written into a chat. Make it with: svc invite ${instance} create '${folder}/**'${uses}`
}

/** Changes are made where they are recorded. */
async function gate(tx: Tx, { instance }: RoutingContext, rest: string): Promise<string> {
  const [action = 'list', ...more] = rest.split(/\s+/).filter(Boolean)
  if (action === 'list') {
    const rows = await onboardingGates.list(tx)
    if (rows.length === 0) return 'There are no gates.'
    return rows
      .map(({ spec, daily_limit, enabled }) => `${spec}: ${daily_limit} a day${enabled ? '' : ', closed'}`)
      .join('\n')
  }
  if (!['add', 'rm', 'enable', 'disable'].includes(action)) return 'Say /gate list, add, rm, enable or disable.'
  return `Gates are changed on the command line: svc gate ${instance} ${[action, ...more].join(' ')}`
}
