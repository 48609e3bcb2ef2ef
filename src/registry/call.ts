// The one path: parse, authorize, run, audit, in one transaction. Every face calls this and nothing else.
import type { z } from 'zod'
import type { Policy } from '../core/access.ts'
import { queueUp } from '../core/messages.ts'
import { hasReach } from '../core/reach.ts'
import { type Turn, turnOf } from '../core/turns.ts'
import { timestamp } from '../lib/clock.ts'
import { parse } from '../lib/parse.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import type { Tx } from '../store/engine.ts'
import { type Outcome, writeAudit } from './audit.ts'
import type { Asking, Context } from './context.ts'
import type { NamedVerb } from './resource.ts'

export async function call<I extends z.ZodObject, O>(asking: Asking, verb: NamedVerb<I, O>, raw: unknown): Promise<O> {
  return callParsed(asking, verb, parse(verb.input, raw))
}

/** For the face that has a schema of its own in front (`toolInput`): `input` is already what the verb's schema gives. */
export async function callParsed<I extends z.ZodObject, O>(
  asking: Asking,
  verb: NamedVerb<I, O>,
  input: z.output<I>,
): Promise<O> {
  const { host } = asking
  const started = performance.now()
  const outcome = (result: Outcome['result'], error?: string): Outcome => ({
    result,
    durationMs: Math.round(performance.now() - started),
    ...(error === undefined ? {} : { error }),
  })
  const params = plainMembers(input)
  let effects: (() => void | Promise<void>)[] = []
  const admit = async (tx: Tx): Promise<Context> => {
    const ctx = contextOf(asking, { tool: verb.toolName, params }, tx, effects)
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
    if (verb.says) await queueUp(tx, host.engine.dialect)
    const ctx = await admit(tx)
    const reply = await verb.run(ctx, input, prepared)
    if (verb.reads) return reply
    const said = verb.audited ? verb.audited(input, reply) : input
    if (!said) return reply
    const folder = asking.caller.kind === 'person' ? await verb.actsFrom?.(ctx, input) : undefined
    await writeAudit(tx, asking, verb, { input: said, reply, folder }, outcome('ok'))
    return reply
  }
  try {
    prepared = await prepare()
    const reply = await (verb.reads ? host.engine.read(attempt) : host.engine.transaction(attempt))
    for (const effect of effects) void runEffect(host, effect)
    return reply
  } catch (error) {
    if (error instanceof Refusal && error.code === 'forbidden') {
      // The refused transaction is gone; what was tried is kept in one of its own.
      await host.engine.transaction((tx) => writeAudit(tx, asking, verb, { input }, outcome('denied', error.message)))
    }
    throw error
  }
}

function contextOf(
  asking: Asking,
  { tool, params }: Pick<Context, 'tool' | 'params'>,
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
    ...(host.layout ? { layout: host.layout } : {}),
    tx,
    dialect: host.engine.dialect,
    caller,
    face,
    reach,
    tool,
    params,
    now: timestamp(host.clock.now()),
    routes: () => host.routes.read(tx),
    policy: () => {
      policy ??= host.policies.read(tx)
      return policy
    },
    turn: async () => {
      if (caller.kind !== 'agent') return undefined
      turn ??= turnOf(tx, caller.folder, asking.turn)
      return turn
    },
    after: (effect) => {
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

async function runEffect(host: Asking['host'], effect: () => void | Promise<void>): Promise<void> {
  try {
    await effect()
  } catch (error) {
    host.onStray?.(error)
  }
}
