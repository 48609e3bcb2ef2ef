// Runs a verb: parse, authorize, run and audit in one transaction. Every face calls verbs through here.
import { setTimeout as pause } from 'node:timers/promises'
import type { z } from 'zod'
import type { Policy } from '../core/access/policy.ts'
import { hasReach } from '../core/access/reach.ts'
import { lockMessageOrder } from '../core/messages/messages.ts'
import { useFormKey } from '../core/people/form-keys.ts'
import { findTurnOfConnection, type Turn } from '../core/turns/turns.ts'
import { timestamp, uuidv7 } from '../lib/clock.ts'
import { defineCounter } from '../lib/log/metric-registry.ts'
import { Refusal, refuse, TransientRefusal } from '../lib/refusal.ts'
import { parse } from '../lib/text/schema-parser.ts'
import type { Tx } from '../store/engine.ts'
import { type AuditOutcome, writeAudit } from './audit.ts'
import { HiddenRowRefusal } from './authorization.ts'
import type { Context, RequestContext } from './context.ts'
import type { NamedVerb } from './resource.ts'

const TRIES_MAX = 3
const RETRY_MS = 250

/** `denied`: for lack of a right; `refused`: for any other reason that the caller is told. */
export const CALLS = defineCounter('svc_calls_total', 'Calls of verbs and tools', {
  face: ['rest', 'tool', 'cli', 'dash'],
  result: ['ok', 'refused', 'denied', 'error'],
})

export async function callVerb<I extends z.ZodObject, O>(
  request: RequestContext,
  verb: NamedVerb<I, O>,
  raw: unknown,
): Promise<O> {
  return callParsed(request, verb, parse(verb.input, raw))
}

/** For input that was already parsed, by the verb's own schema or by `toolInput`. */
export async function callParsed<I extends z.ZodObject, O>(
  request: RequestContext,
  verb: NamedVerb<I, O>,
  input: z.output<I>,
): Promise<O> {
  const { host } = request
  const started = performance.now()
  const outcome = (result: AuditOutcome['result'], error?: string): AuditOutcome => ({
    result,
    durationMs: Math.round(performance.now() - started),
    ...(error === undefined ? {} : { error }),
  })
  const params = scalarMembers(input)
  const count = (result: (typeof CALLS.labels.result)[number]): void => {
    host.metrics.add(CALLS, { face: request.face, result })
    if (host.tracer) traceToolCall(request, verb.toolName, started, result)
  }
  let effects: (() => void | Promise<void>)[] = []
  const authorize = async (tx: Tx): Promise<Context> => {
    const ctx = createContext(request, { ...namesOf(verb), params }, tx, effects)
    // Refuses calls from expired turns.
    if (request.turn) await ctx.turn()
    mustHaveReach(ctx, verb)
    mustHaveSession(ctx, verb)
    await verb.authorize(ctx, input)
    return ctx
  }
  const prepare = async (): Promise<unknown> => {
    if (!verb.prepare) return undefined
    await host.engine.read(authorize)
    return verb.prepare(request, input)
  }
  let prepared: unknown
  const attempt = async (tx: Tx): Promise<O> => {
    effects = []
    if (verb.appendsMessages) await lockMessageOrder(tx, host.engine.dialect)
    const ctx = await authorize(tx)
    if (request.formKey !== undefined && !verb.isReadOnly) await useFormKey(tx, request.formKey, host.clock.now())
    if (request.turn && !verb.isReadOnly) await bookCost(request, request.turn, tx)
    const reply = await verb.run(ctx, input, prepared)
    if (verb.isReadOnly) return reply
    const auditInput = verb.auditInput ? verb.auditInput(input, reply) : input
    if (!auditInput) return reply
    const folder = request.caller.kind === 'person' ? await verb.actingFolder?.(ctx, input) : undefined
    await writeAudit(tx, request, verb, { input: auditInput, reply, folder }, outcome('ok'))
    return reply
  }
  try {
    prepared = await prepare()
    const run = () => (verb.isReadOnly ? host.engine.read(attempt) : host.engine.transaction(attempt))
    const reply = await (request.face === 'tool' ? withRetries(run) : run())
    for (const effect of effects) void runEffect(host, effect)
    count('ok')
    return reply
  } catch (error) {
    if (error instanceof TransientRefusal) request.onOutage?.()
    count(callResult(error))
    const denial = denialOf(error)
    if (denial !== undefined) {
      // The refused transaction was rolled back, so the audit row needs its own.
      await host.engine.transaction((tx) => writeAudit(tx, request, verb, { input }, outcome('denied', denial)))
    }
    throw error
  }
}

/**
 * Which of these calls would be permitted, without making them. For pages, which do not offer what would be refused. Inputs need only
 * the members that decide about access.
 */
export async function checkCalls(
  request: RequestContext,
  calls: readonly { readonly verb: NamedVerb; readonly input: Record<string, unknown> }[],
): Promise<boolean[]> {
  if (calls.length === 0) return []
  return request.host.engine.read(async (tx) => {
    // One policy for all of them.
    const shared = createContext(request, { tool: '', listTool: '', tiers: {}, params: {} }, tx, [])
    const results: boolean[] = []
    for (const { verb, input } of calls) {
      const ctx = { ...shared, ...namesOf(verb), params: scalarMembers(input) }
      results.push(await isPermitted(ctx, verb, input))
    }
    return results
  })
}

function namesOf({
  toolName,
  listTool = toolName,
  tiers = {},
}: NamedVerb): Pick<Context, 'tool' | 'listTool' | 'tiers'> {
  return { tool: toolName, listTool, tiers }
}

async function isPermitted(ctx: Context, verb: NamedVerb, input: Record<string, unknown>): Promise<boolean> {
  try {
    mustHaveSession(ctx, verb)
    await verb.authorize(ctx, input)
    return true
  } catch (error) {
    if (error instanceof Refusal) return false
    throw error
  }
}

/** Writes what the turn of this call has cost so far. Booked first, so that a call which checks the budget counts it. */
async function bookCost({ host }: RequestContext, turn: { id: string; fence?: number }, tx: Tx): Promise<void> {
  const cost = host.turnCosts.get(turn.id)
  if (cost && cost.fence === (turn.fence ?? cost.fence)) await cost.book(tx, host.metrics, timestamp(host.clock.now()))
}

/** Calls of an agent belong to the attempt of its turn. */
function traceToolCall({ host, caller, turn }: RequestContext, tool: string, started: number, result: string): void {
  if (!turn || caller.kind !== 'agent') return
  const endMs = host.clock.now()
  host.tracer?.toolCalled({
    turn,
    call: uuidv7(host.clock, host.random),
    folder: caller.folder,
    tool,
    error: result === 'ok' ? undefined : result,
    startMs: endMs - (performance.now() - started),
    endMs,
  })
}

function callResult(error: unknown): 'refused' | 'denied' | 'error' {
  if (!(error instanceof Refusal)) return 'error'
  return denialOf(error) === undefined ? 'refused' : 'denied'
}

/** The reason if the caller lacks a right. */
function denialOf(error: unknown): string | undefined {
  if (error instanceof HiddenRowRefusal) return error.denial
  return error instanceof Refusal && error.code === 'forbidden' ? error.message : undefined
}

/** Agents do not retry a failed tool call themselves. */
async function withRetries<O>(run: () => Promise<O>): Promise<O> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run()
    } catch (error) {
      if (!(error instanceof TransientRefusal) || error.isOutcomeUnknown || attempt === TRIES_MAX) throw error
    }
    await pause(RETRY_MS * attempt)
  }
}

function createContext(
  request: RequestContext,
  names: Pick<Context, 'tool' | 'listTool' | 'tiers' | 'params'>,
  tx: Tx,
  effects: (() => void | Promise<void>)[],
): Context {
  const { host, caller, face, reach = 'all' } = request
  // Read once per transaction.
  let policy: Promise<Policy> | undefined
  let turn: Promise<Turn | undefined> | undefined
  return {
    instance: host.instance,
    clock: host.clock,
    random: host.random,
    keyring: host.keyring,
    webBase: host.webBase,
    timeZone: host.timeZone,
    assistantName: host.assistantName,
    rules: host.rules,
    limits: host.limits,
    settingRules: host.settingRules,
    signals: host.signals,
    metrics: host.metrics,
    ...(host.tracer ? { tracer: host.tracer } : {}),
    ...(host.layout ? { layout: host.layout } : {}),
    tx,
    dialect: host.engine.dialect,
    caller,
    face,
    reach,
    ...names,
    now: timestamp(host.clock.now()),
    routes: () => host.routes.read(tx),
    policy: () => {
      policy ??= host.policies.read(tx)
      return policy
    },
    turn: async () => {
      if (caller.kind !== 'agent') return undefined
      turn ??= findTurnOfConnection(tx, caller.folder, request.turn)
      return turn
    },
    afterCommit: (effect) => {
      effects.push(effect)
    },
  }
}

/** Checked before access, so that the error does not reveal which rows exist. */
function mustHaveReach({ reach, tool }: Context, { reach: needed = 'all' }: NamedVerb): void {
  if (hasReach(reach, needed)) return
  const sender = reach === 'chat' ? 'visitors of this chat' : 'the sender of this message'
  refuse(
    'forbidden',
    `${tool}: not permitted in this turn, because ${sender} may not ask for it (reach ${reach}, needed ${needed})`,
  )
}

/** Pages act with more rights than a bearer has, so the face `dash` needs the session of a person. */
function mustHaveSession({ caller, face, tool }: Context, { needsNoSession }: NamedVerb): void {
  if (face !== 'dash' || needsNoSession) return
  if (caller.kind !== 'person' || caller.session === undefined)
    refuse('forbidden', `${tool}: only a person with a session can use the pages`)
}

function scalarMembers(input: object): Context['params'] {
  const scalars = Object.entries(input).filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value))
  return Object.fromEntries(scalars.map(([name, value]) => [name, String(value)]))
}

async function runEffect(host: RequestContext['host'], effect: () => void | Promise<void>): Promise<void> {
  try {
    await effect()
  } catch (error) {
    host.faults.report('job', error)
  }
}
