// The one path: parse, authorize, run, audit, in one transaction. Every face calls this and nothing else.
import { setTimeout as pause } from 'node:timers/promises'
import type { z } from 'zod'
import type { Policy } from '../core/access/policy.ts'
import { hasReach } from '../core/access/reach.ts'
import { lockMessageOrder } from '../core/messages/messages.ts'
import { findTurnOfConnection, type Turn } from '../core/turns/turns.ts'
import { timestamp } from '../lib/clock.ts'
import { Refusal, refuse, TransientRefusal } from '../lib/refusal.ts'
import { parse } from '../lib/text/schema-parser.ts'
import type { Tx } from '../store/engine.ts'
import { type AuditOutcome, writeAudit } from './audit.ts'
import type { Context, RequestContext } from './context.ts'
import type { NamedVerb } from './resource.ts'

const TRIES_MAX = 3
const RETRY_MS = 250

export async function callVerb<I extends z.ZodObject, O>(
  asking: RequestContext,
  verb: NamedVerb<I, O>,
  raw: unknown,
): Promise<O> {
  return callParsed(asking, verb, parse(verb.input, raw))
}

/** For the face that has a schema of its own in front (`toolInput`): `input` is already what the verb's schema gives. */
export async function callParsed<I extends z.ZodObject, O>(
  asking: RequestContext,
  verb: NamedVerb<I, O>,
  input: z.output<I>,
): Promise<O> {
  const { host } = asking
  const started = performance.now()
  const outcome = (result: AuditOutcome['result'], error?: string): AuditOutcome => ({
    result,
    durationMs: Math.round(performance.now() - started),
    ...(error === undefined ? {} : { error }),
  })
  const params = plainMembers(input)
  let effects: (() => void | Promise<void>)[] = []
  const admit = async (tx: Tx): Promise<Context> => {
    const ctx = contextOf(asking, { tool: verb.toolName, tiers: verb.tiers ?? {}, params }, tx, effects)
    // Whoever has lost its turn has lost its say.
    if (asking.turn) await ctx.turn()
    mustHaveReach(ctx, verb)
    await verb.needs(ctx, input)
    return ctx
  }
  const prepare = async (): Promise<unknown> => {
    if (!verb.prepare) return undefined
    await host.engine.read(admit)
    return verb.prepare(asking, input)
  }
  let prepared: unknown
  const attempt = async (tx: Tx): Promise<O> => {
    effects = []
    if (verb.appendsMessages) await lockMessageOrder(tx, host.engine.dialect)
    const ctx = await admit(tx)
    const reply = await verb.run(ctx, input, prepared)
    if (verb.reads) return reply
    const said = verb.audited ? verb.audited(input, reply) : input
    if (!said) return reply
    const folder = asking.caller.kind === 'person' ? await verb.actingFolder?.(ctx, input) : undefined
    await writeAudit(tx, asking, verb, { input: said, reply, folder }, outcome('ok'))
    return reply
  }
  try {
    prepared = await prepare()
    const ask = () => (verb.reads ? host.engine.read(attempt) : host.engine.transaction(attempt))
    const reply = await (asking.face === 'tool' ? withRetries(ask) : ask())
    for (const effect of effects) void runEffect(host, effect)
    return reply
  } catch (error) {
    if (error instanceof TransientRefusal) asking.onOutage?.()
    if (error instanceof Refusal && error.code === 'forbidden') {
      // The refused transaction is gone; what was tried is kept in one of its own.
      await host.engine.transaction((tx) => writeAudit(tx, asking, verb, { input }, outcome('denied', error.message)))
    }
    throw error
  }
}

/** An agent takes a failure for the answer, so a tool is tried again while the store cannot do it for a moment. */
async function withRetries<O>(ask: () => Promise<O>): Promise<O> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof TransientRefusal) || error.isOutcomeUnknown || attempt === TRIES_MAX) throw error
    }
    await pause(RETRY_MS * attempt)
  }
}

function contextOf(
  asking: RequestContext,
  { tool, tiers, params }: Pick<Context, 'tool' | 'tiers' | 'params'>,
  tx: Tx,
  effects: (() => void | Promise<void>)[],
): Context {
  const { host, caller, face, reach = 'all' } = asking
  // Asked several times of one call, and the same in all of its transaction.
  let policy: Promise<Policy> | undefined
  let turn: Promise<Turn | undefined> | undefined
  return {
    instance: host.instance,
    clock: host.clock,
    random: host.random,
    keyring: host.keyring,
    webBase: host.webBase,
    timeZone: host.timeZone,
    rules: host.rules,
    limits: host.limits,
    signals: host.signals,
    ...(host.layout ? { layout: host.layout } : {}),
    tx,
    dialect: host.engine.dialect,
    caller,
    face,
    reach,
    tool,
    tiers,
    params,
    now: timestamp(host.clock.now()),
    routes: () => host.routes.read(tx),
    policy: () => {
      policy ??= host.policies.read(tx)
      return policy
    },
    turn: async () => {
      if (caller.kind !== 'agent') return undefined
      turn ??= findTurnOfConnection(tx, caller.folder, asking.turn)
      return turn
    },
    afterCommit: (effect) => {
      effects.push(effect)
    },
  }
}

/** Before the rights: a sentence that says who must ask instead, and nothing about what there is. */
function mustHaveReach({ reach, tool }: Context, { reach: needed = 'all' }: NamedVerb): void {
  if (hasReach(reach, needed)) return
  const whose = reach === 'chat' ? 'visitors of this chat' : 'the sender of this message'
  refuse(
    'forbidden',
    `${tool}: not permitted in this turn, because ${whose} may not ask for it (reach ${reach}, needed ${needed})`,
  )
}

function plainMembers(input: object): Context['params'] {
  const plain = Object.entries(input).filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value))
  return Object.fromEntries(plain.map(([name, value]) => [name, String(value)]))
}

async function runEffect(host: RequestContext['host'], effect: () => void | Promise<void>): Promise<void> {
  try {
    await effect()
  } catch (error) {
    host.onBackgroundError?.(error)
  }
}
