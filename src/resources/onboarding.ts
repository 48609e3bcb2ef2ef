// Onboarding: chats and people without a folder. The router creates the rows of chats and the page those of people; gates admit
// them, and operators decide on them here.
import { z } from 'zod'
import { creatorOf } from '../core/access/caller.ts'
import { isAccount } from '../core/access/namespaces.ts'
import { hasGrant } from '../core/access/policy.ts'
import { recordOutbound } from '../core/delivery/outbox.ts'
import { groups } from '../core/groups/groups.ts'
import { Onboarding, type OnboardingRow, onboarding, openOnboarding } from '../core/people/onboarding.ts'
import {
  admissionFault,
  admit,
  admitTo,
  CHAT_ROLES,
  discardPreparedFolder,
  prepareFolder,
} from '../core/people/onboarding-admission.ts'
import { PROMPT } from '../core/people/onboarding-chat.ts'
import { admissionDay, chooseGate, onboardingGates, takeAdmission } from '../core/people/onboarding-gates.ts'
import {
  countAhead,
  listQueued,
  type QueuePosition,
  requestFolder,
  unavailableText,
} from '../core/people/onboarding-requests.ts'
import { findPaired } from '../core/people/pairing-codes.ts'
import { findChatFolder } from '../core/routing/chat-folder.ts'
import { senderSegment } from '../core/routing/route-table.ts'
import { RoutableJid } from '../core/routing/routes.ts'
import { Folder, Jid, line } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { mustBeSignedIn } from '../permissions/signed-in-person.ts'
import { requireInstanceTool, requireOperator } from '../registry/authorization.ts'
import type { Context, InstanceHost } from '../registry/context.ts'
import { ascending, listSchema, listVerb, mustFindRow, Paging } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'
import { readCursor, writeCursor } from '../store/cursor.ts'
import type { Tx } from '../store/engine.ts'

const Decision = z.object({
  jid: Jid,
  action: z.enum(['approve', 'refuse', 'reprompt']),
  folder: Folder.optional().describe('For approve: the new folder; default: the one that was asked for'),
  to: Folder.optional().describe('For approve: an existing folder for the chat instead of a new one'),
  role: z.enum(CHAT_ROLES).optional().describe('With to: what the person may do there; default: member'),
})
type Decision = z.output<typeof Decision>

/** `routed`: by an operator; `full`: the limit of the day is reached; `skipped`: the row no longer waits for a gate. */
const ADMISSION_OUTCOMES = ['admitted', 'unavailable', 'routed', 'full', 'skipped'] as const

export const onboardingResource = defineResource({
  of: onboarding,
  title: 'Onboarding',
  servedBy: 'onbod',
  verbs: (table) => ({
    list: listVerb(table, 'onboarding', {
      authorize: requireInstanceTool,
      order: ascending('created', 'jid'),
      when: 'List the chats that wait for admission.',
    }),

    /** Those who wait, in the order in which they are admitted. */
    queue: defineVerb({
      isReadOnly: true,
      input: Paging,
      output: listSchema(table, 'onboarding'),
      authorize: requireOperator,
      run: async (ctx, { limit, after }) => {
        const found = await listQueued(ctx.tx, limit + 1, after === undefined ? undefined : queuePosition(after))
        const rows = found.slice(0, limit)
        const last = found.length > limit ? rows.at(-1) : undefined
        return { onboarding: rows, ...(last ? { next: writeCursor([last.position ?? 0, last.jid]) } : {}) }
      },
    }),

    update: defineVerb({
      http: 'PATCH /{jid}',
      when: 'Approve or refuse a waiting chat, or prompt it again.',
      input: Decision,
      output: Onboarding,
      authorize: requireInstanceTool,
      appendsMessages: true,
      prepare: async ({ host }, decision) => {
        mustBeDecision(decision)
        const { jid, action, folder: given, to } = decision
        const row = await host.engine.read((tx) => mustFindUndecided(tx, jid))
        if (action !== 'approve' || to !== undefined) return discardPreparedFolder(filesOf(host), row)
        mustBeRoutable(row)
        const folder = folderFor(row, given)
        if (!(await prepareFolder(filesOf(host), row, folder))) refuseFolder(host.instance, jid, folder)
        return undefined
      },
      run: async (ctx, { jid, action, folder, to, role }) => {
        const row = await mustFindUndecided(ctx.tx, jid)
        if (action === 'approve' && to !== undefined) await approveTo(ctx, row, to, role)
        else if (action === 'approve') await approve(ctx, row, folderFor(row, folder))
        else await turnDown(ctx, row, action)
        return mustFindRow(ctx, table, { jid }, labelOf(jid))
      },
    }),

    /** The chat that was given a pairing code. */
    find_pairing: defineVerb({
      isReadOnly: true,
      input: z.object({ code: line(20) }),
      output: Onboarding,
      authorize: requireOperator,
      run: async ({ tx, now, instance }, { code }) =>
        (await findPaired(tx, code, now)) ??
        refuse(
          'not_found',
          'no chat has this code, or it has expired',
          `svc onboarding ${instance} list shows the chats that wait`,
        ),
    }),

    /** For the page of a signed-in person. */
    own: defineVerb({
      isReadOnly: true,
      input: z.object({}),
      output: z.object({ row: Onboarding.optional(), ahead: z.int(), has_grant: z.boolean() }),
      authorize: (ctx) => {
        mustBeSignedIn(ctx)
      },
      run: async (ctx) => {
        const sub = mustBeSignedIn(ctx)
        const row = await table.find(ctx.tx, { jid: sub })
        return {
          ...(row ? { row } : {}),
          ahead: row?.status === 'queued' ? await countAhead(ctx.tx, row) : 0,
          has_grant: hasGrant(await ctx.policy(), sub),
        }
      },
    }),

    /** A signed-in person without a grant asks for a folder. `fault`: why the name cannot be used. */
    request: defineVerb({
      input: z.object({ folder: line(255) }),
      output: z.object({ jid: z.string(), fault: z.string().optional() }),
      authorize: async (ctx) => {
        if (hasGrant(await ctx.policy(), mustBeSignedIn(ctx)))
          refuse('forbidden', 'you have access to a folder already')
      },
      appendsMessages: true,
      run: async (ctx, { folder }) => {
        const jid = mustBeSignedIn(ctx)
        const isOpen = (await table.find(ctx.tx, { jid })) ?? (await openOnboarding(ctx.tx, jid, jid, ctx.now))
        if (!isOpen) refuse('rate_limited', 'too many people wait for a folder', 'try again tomorrow')
        const row = await mustFindRow(ctx, table, { jid }, labelOf(jid))
        if (row.status !== 'awaiting_message') refuse('conflict', 'you have asked for a folder already')
        const asked = await requestFolder(ctx.tx, row, { folder: folder.trim(), by: jid, now: ctx.now })
        return { jid, ...(asked.kind === 'fault' ? { fault: asked.text } : {}) }
      },
      auditInput: (input, { fault }) => (fault === undefined ? input : undefined),
    }),

    /** Admits a row through its gate; called by the worker of onbod. */
    admit: defineVerb({
      input: z.object({ jid: Jid }),
      output: z.object({ outcome: z.enum(ADMISSION_OUTCOMES) }),
      authorize: ({ caller, tool }) => {
        if (caller.kind !== 'service') refuse('forbidden', `${tool} is for onbod`)
      },
      appendsMessages: true,
      prepare: async ({ host }, { jid }) => {
        const row = await host.engine.read((tx) => table.find(tx, { jid }))
        if (row?.status === 'queued' && row.folder !== undefined) await prepareFolder(filesOf(host), row, row.folder)
      },
      run: async (ctx, { jid }) => ({ outcome: await admitThroughGate(ctx, jid) }),
      auditInput: (input, { outcome }) => (outcome === 'full' || outcome === 'skipped' ? undefined : input),
    }),
  }),
})

function queuePosition(cursor: string): QueuePosition {
  const [position, jid] = readCursor(cursor) ?? []
  if (Number.isSafeInteger(position) && Jid.safeParse(jid).success)
    return { position: Number(position), jid: String(jid) }
  return refuse('invalid', 'after is not a cursor of this list', 'use the `next` of the previous page')
}

function labelOf(jid: string): string {
  return `chat ${jid} in onboarding`
}

function filesOf({ engine, layout }: InstanceHost) {
  return { engine, layout: layout ?? refuse('unavailable', 'this process has no files and cannot create a folder') }
}

/** A row can be decided again once its folder is gone. */
async function mustFindUndecided(tx: Tx, jid: string): Promise<OnboardingRow> {
  const row = await mustFindRow({ tx }, onboarding, { jid }, labelOf(jid))
  const { status, folder } = row
  if (status === 'approved' && folder !== undefined && (await groups.find(tx, { folder })))
    refuse('conflict', `${jid} is approved already and has the folder ${folder}`)
  return row
}

function mustBeRoutable({ jid }: OnboardingRow): void {
  if (!isAccount(jid) && !RoutableJid.safeParse(jid).success)
    refuse('conflict', `${jid} has characters that a route cannot match`)
}

function mustBeDecision({ action, folder, to, role }: Decision): void {
  if (to !== undefined && (action !== 'approve' || folder !== undefined))
    refuse('conflict', 'to is for approve, and without folder: it names a folder that exists')
  if (role !== undefined && to === undefined) refuse('conflict', 'role needs to, the folder that it is for')
}

/** A person with a pairing code was not asked for a name. */
function folderFor(row: OnboardingRow, given: string | undefined): string {
  const { jid, folder, user_sub, pairing_code } = row
  const own = given ?? folder
  if (own !== undefined) return own
  if (user_sub !== undefined && pairing_code !== undefined) return senderSegment(user_sub, jid)
  return refuse('invalid', `${jid} has not asked for a folder`, 'name the new folder with folder')
}

function refuseFolder(instance: string, jid: string, folder: string, fault?: string): never {
  refuse(
    'conflict',
    fault ?? `the folder ${folder} is not available: it exists, or files of an earlier group do`,
    isAccount(jid)
      ? `name another folder, or use svc group ${instance} grant ${jid} '${folder}/**'`
      : `name another folder, or use svc group ${instance} add ${jid} ${folder}`,
  )
}

async function approve(ctx: Context, row: OnboardingRow, folder: string): Promise<void> {
  mustBeRoutable(row)
  const fault = await admissionFault(ctx.tx, row, folder)
  if (fault !== undefined) refuseFolder(ctx.instance, row.jid, folder, fault)
  await admit(ctx.tx, row, { folder }, ctx)
  await tell(ctx, row.jid, admittedText(folder))
}

async function approveTo(ctx: Context, row: OnboardingRow, folder: string, role: Decision['role']): Promise<void> {
  mustBeRoutable(row)
  await mustFindRow(ctx, groups, { folder }, `group ${folder}`)
  await admitTo(ctx.tx, row, { folder, role: role ?? 'member', by: creatorOf(ctx.caller), now: ctx.now })
  await tell(ctx, row.jid, 'You are in. Write what you need.')
}

async function turnDown(ctx: Context, { jid }: OnboardingRow, action: 'refuse' | 'reprompt'): Promise<void> {
  const isRefused = action === 'refuse'
  await onboarding.update(
    ctx.tx,
    { jid },
    {
      status: isRefused ? 'refused' : 'awaiting_message',
      ...{ admitted_at: undefined, position: undefined, folder: undefined, gate: undefined, attempts: 0 },
      ...{ pairing_code: undefined, pairing_expires_at: undefined },
      ...(isRefused ? {} : { prompted_at: ctx.now, queued_at: undefined }),
    },
  )
  await tell(ctx, jid, isRefused ? 'Your request for a folder was refused.' : PROMPT)
}

/** All in one transaction, so the gate counts an admission exactly if it happens. */
async function admitThroughGate(ctx: Context, jid: string): Promise<(typeof ADMISSION_OUTCOMES)[number]> {
  const { tx } = ctx
  const row = await onboarding.find(tx, { jid })
  if (row?.status !== 'queued' || row.folder === undefined) return 'skipped'
  const { folder } = row
  const gate = chooseGate(await onboardingGates.list(tx), folder)
  if (!gate) return 'skipped'
  if (!isAccount(jid)) {
    const current = await findChatFolder(tx, jid, ctx.routes)
    // An operator has routed the chat meanwhile.
    if (current !== undefined && (await groups.find(tx, { folder: current }))) {
      const routed = { status: 'approved', folder: current, gate: undefined, position: undefined } as const
      await onboarding.update(tx, { jid }, { ...routed, admitted_at: ctx.now })
      return 'routed'
    }
  }
  if ((await admissionFault(tx, row, folder)) !== undefined) {
    const prompt = { status: 'awaiting_message', prompted_at: ctx.now, queued_at: undefined, attempts: 0 } as const
    await onboarding.update(tx, { jid }, { ...prompt, folder: undefined, gate: undefined, position: undefined })
    await tell(ctx, jid, unavailableText(folder))
    return 'unavailable'
  }
  if (!(await takeAdmission(tx, gate, admissionDay(ctx.clock.now())))) return 'full'
  await admit(tx, row, { folder, gate: gate.spec }, ctx)
  await tell(ctx, jid, admittedText(folder))
  return 'admitted'
}

function admittedText(folder: string): string {
  return `You are in: this chat belongs to the folder ${folder} now. Write what you need.`
}

/** A person sees the same on the page. */
async function tell(ctx: Context, jid: string, content: string): Promise<void> {
  if (isAccount(jid)) return
  const out = { jid, topic: '', content, engages: false }
  const { keys } = await recordOutbound(ctx.tx, ctx, ctx.rules, out)
  ctx.afterCommit(() => ctx.signals.emit(keys, ['outbox']))
}
