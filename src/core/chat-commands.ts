// The commands of a chat, answered at once. Whoever sends one is named by the platform; what changes the instance is for
// operators alone, and nobody is one by saying so (decision A6).
import { timestamp } from '../lib/clock.ts'
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { isOperator } from './access.ts'
import { findConversation, startAfresh } from './conversations.ts'
import { groups } from './groups.ts'
import { onboardingGates } from './onboarding-gates.ts'
import { decide, heldActions } from './pending-actions.ts'
import { type Decision, type Place, type RoutingWorld, topicName } from './routed.ts'
import type { CommandName, Steering } from './steering.ts'
import { ROOT } from './tiers.ts'
import { turns } from './turns.ts'

type Command = Extract<Steering, { kind: 'command' }>

/** Where a command was given, and whose conversation that is. */
export interface Given {
  readonly jid: string
  readonly sender: string
  readonly folder: string
  readonly place: Place
  /** The conversation of a topic that is named in this chat. */
  named(topic: string): string
}

const FOR_OPERATORS: readonly CommandName[] = ['status', 'root', 'invite', 'gate', 'approve', 'reject']

export async function carryOut(tx: Tx, world: RoutingWorld, given: Given, command: Command): Promise<Decision> {
  const { folder, place } = given
  const mayAll = isOperatorHere(world, given.sender)
  if (FOR_OPERATORS.includes(command.name) && !mayAll)
    return answer(given, `Sorry, /${command.name} is for operators of this instance.`)
  switch (command.name) {
    case 'new': {
      const topic = command.topic === undefined ? place.topic : given.named(command.topic)
      await startAfresh(tx, folder, topic, timestamp(world.speaking.clock.now()))
      if (command.rest !== '') return { ...place, kind: 'turn', folder, topic }
      return answer(given, topicName(topic) === '' ? 'Session cleared.' : 'Topic session cleared.')
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
      return answer(given, await decideHeld(tx, world, given.sender, command.name === 'approve', command.rest))
  }
}

/** A sender that an agent made up, or a visitor without an account, is never an operator. */
function isOperatorHere({ policy }: RoutingWorld, sender: string): boolean {
  return !/^(injected|anon):/.test(sender) && isOperator(policy, sender)
}

function answer({ place, folder }: Given, say: string): Decision {
  return { ...place, kind: 'end', outcome: 'answered', folder, say }
}

/** One turn of the root's agent, which answers in this chat. */
async function root(tx: Tx, given: Given, rest: string): Promise<Decision> {
  if (rest === '') return answer(given, 'Say what the root is to do: /root <text>')
  if (!(await groups.find(tx, { folder: ROOT }))) return answer(given, `There is no folder ${ROOT} in this instance.`)
  return { ...given.place, kind: 'turn', folder: ROOT, topic: '', verb: 'root' }
}

/** Only what is about to answer here: others of the same folder are none of this chat's business. */
async function stop(tx: Tx, { jid, place }: Given): Promise<number> {
  return turns.update(tx, { jid, chat_topic: place.chat_topic, state: 'running' }, { is_stopping: true })
}

async function pong(tx: Tx, { folder, place }: Given, mayAll: boolean): Promise<string> {
  const session = (await findConversation(tx, folder, place.topic))?.session_id
  const lines = ['pong', `folder: ${folder}`, `session: ${session?.slice(0, 8) ?? 'none'}`]
  if (!mayAll) return lines.join('\n')
  const { running, groups: all } = await counts(tx)
  return [...lines, `running: ${running}`, `groups: ${all}`].join('\n')
}

async function status(tx: Tx, { instance }: RoutingWorld): Promise<string> {
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
  const { rows } = await run(
    tx,
    `select (select count(*) from groups) as all_groups,
       (select count(*) from turns where state = 'running') as running,
       (select coalesce(sum(waiting), 0) from conversations) as waiting,
       (select count(*) from outbox where state in ('pending', 'sending')) as unsent,
       (select count(*) from outbox where state in ('failed', 'unknown')) as failed`,
  )
  const [row = {}] = rows
  return {
    groups: Number(row.all_groups),
    running: Number(row.running),
    waiting: Number(row.waiting),
    unsent: Number(row.unsent),
    failed: Number(row.failed),
  }
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
async function decideHeld(
  tx: Tx,
  { speaking }: RoutingWorld,
  by: string,
  isApproved: boolean,
  id: string,
): Promise<string> {
  const held = await heldActions(tx, speaking.clock.now())
  if (id === '') {
    if (held.length === 0) return 'Nothing is held.'
    return held.map((action) => `${action.id}: ${action.tool} by ${action.folder} ${action.summary}`).join('\n')
  }
  const action = await decide(tx, speaking, { id, by, isApproved })
  if (!action) return `Nothing is held under ${id.slice(0, 40)}.`
  return `${isApproved ? 'Approved' : 'Rejected'}: ${action.tool} by ${action.folder}.`
}

/** The link of an invite makes whoever has it an administrator: it is not written where others read. */
function invite({ instance }: RoutingWorld, folder: string, rest: string): string {
  if (!/^([1-9]\d{0,5})?$/.test(rest)) return 'How many may use it is a number: /invite [n]'
  const uses = rest === '' ? '' : ` -n ${rest}`
  return `An invite is a secret and is not written into a chat. Make it with: svc invite ${instance} create '${folder}/**'${uses}`
}

/** Changes are made where they are recorded. */
async function gate(tx: Tx, { instance }: RoutingWorld, rest: string): Promise<string> {
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
