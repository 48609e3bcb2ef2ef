// Decisions on held calls, and the message with buttons that asks for one in a chat. See docs/decisions.md#approvals-in-a-chat.
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { outbox, type RecordedOutbound, recordOutbound } from '../delivery/outbox.ts'
import { recordInbound } from '../messages/inbound.ts'
import type { RouteTable } from '../routing/route-table.ts'
import { parseRouteTarget } from '../routing/routes.ts'
import type { WriteContext } from '../turns/rounds.ts'
import { isExpired, type PendingAction, pendingActions } from './approvals.ts'
import { defaultReach } from './reach.ts'
import { mayReachFolder } from './tiers.ts'

/** Characters of the arguments. */
const DETAILS_MAX = 1500
/** The question engages no folder in the chat. */
const RULES = { engagementMs: 0 }

const BUTTONS = [
  { id: 'approve', label: 'Approve', style: 'primary' },
  { id: 'reject', label: 'Refuse', style: 'danger' },
] as const

interface AskedCall {
  readonly id: string
  readonly folder: string
  readonly tool: string
  readonly summary: string
}

/** The arguments are sent only to a chat whose agents may know them, and are in no message that agents can read. */
export async function askForDecision(
  tx: Tx,
  context: WriteContext,
  call: AskedCall,
  { jid, routes }: { readonly jid: string; readonly routes: Pick<RouteTable, 'routesForChat'> },
): Promise<RecordedOutbound> {
  const { id, folder } = call
  const mayShow = routes.routesForChat(jid).every(({ target }) => mayKnow(target, folder))
  const payload = {
    approval: id,
    buttons: BUTTONS,
    details: mayShow ? fenced(call.summary.slice(0, DETAILS_MAX)) : 'Its arguments are in the dashboard.',
    withoutButtons: `To decide, send /approve ${id} or /reject ${id}.`,
  }
  return recordOutbound(tx, context, RULES, { jid, topic: '', content: describeCall(call), payload, engages: false })
}

export interface Decision {
  readonly id: string
  /** Principal of the person. */
  readonly by: string
  readonly name?: string | undefined
  readonly isApproved: boolean
}

/** Approves or rejects a held call and notifies its agent. Returns undefined if no call with this id is held. */
export async function decideHeldCall(
  tx: Tx,
  context: WriteContext,
  { id, by, name, isApproved }: Decision,
): Promise<PendingAction | undefined> {
  const action = await pendingActions.find(tx, { id, status: 'held' })
  if (!action) return undefined
  const now = context.clock.now()
  const hasExpired = isExpired(action.held_at, now)
  const status = hasExpired ? 'expired' : isApproved ? 'approved' : 'rejected'
  await pendingActions.update(tx, { id }, { status, decided_by: by, updated_at: timestamp(now) })
  await showDecision(tx, context, action, hasExpired ? 'Expired.' : describeDecision({ by, name, isApproved }))
  if (hasExpired) return undefined
  const { folder, tool, jid = folder, reach = defaultReach(jid) } = action
  const notice = isApproved
    ? `The held call of ${tool} (${id}) was approved. Repeat it with the same arguments: the approval is valid once.`
    : `The held call of ${tool} (${id}) was rejected. Do not repeat it.`
  await recordInbound(tx, context, {
    ...{ jid, target_folder: folder, sender: 'system', content: notice, reach },
    envelope: { verb: 'message', sender_name: 'system', as_folder: folder },
  })
  return { ...action, status }
}

/** Takes the place of the question, without buttons and arguments. */
async function showDecision(
  tx: Tx,
  context: WriteContext,
  call: AskedCall & { readonly prompt_seq?: number | undefined },
  decision: string,
): Promise<void> {
  const { prompt_seq: message_seq } = call
  const prompt = message_seq === undefined ? undefined : await outbox.find(tx, { message_seq })
  if (!prompt) return
  const { jid, topic, id: replaces } = prompt
  const content = `${describeCall(call)}\n\n${decision}`
  await recordOutbound(tx, context, RULES, { jid, topic, content, payload: { replaces }, engages: false })
}

function describeCall({ id, folder, tool }: AskedCall): string {
  return `The agent of ${folder} asks to call ${tool} (${id}).`
}

/** Whether the agents that a route leads to may know what an agent of the folder does. */
function mayKnow(target: string, folder: string): boolean {
  const parsed = parseRouteTarget(target)
  return parsed?.kind === 'folder' ? mayReachFolder(parsed.name, folder) : parsed?.kind === 'builtin'
}

/** The text cannot end the block. */
function fenced(text: string): string {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map(({ length }) => length))
  const fence = '`'.repeat(longest + 1)
  return `${fence}\n${text}\n${fence}`
}

function describeDecision({ by, name, isApproved }: Omit<Decision, 'id'>): string {
  return `${isApproved ? 'Approved' : 'Refused'} by ${name === undefined ? by : `${name} (${by})`}.`
}
