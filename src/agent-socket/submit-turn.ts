// The hidden method submit_turn: a run reports its result, session and cost when it ends.
import { z } from 'zod'
import { filterOutput } from '../core/delivery/output-filter.ts'
import { writeContextOf } from '../core/turns/rounds.ts'
import { submitTurn, type TurnSubmission, turns } from '../core/turns/turns.ts'
import { line, multilineText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { parse } from '../lib/text/schema-parser.ts'
import type { InstanceHost } from '../registry/context.ts'
import { recordStatus } from './submit-status.ts'
import type { TurnMeta } from './turn-meta.ts'

const TEXT_MAX = 4 * 1024 * 1024
const Tokens = z.int().min(0).max(1_000_000_000_000).default(0)

const Model = z.strictObject({
  input: Tokens,
  output: Tokens,
  cost_cents: z.number().min(0).max(1_000_000_000).default(0),
})

const SubmitTurnParams = z
  .strictObject({
    turn_id: line(256),
    session_id: z.literal('').or(line(256)).optional(),
    status: z.enum(['success', 'error']).optional(),
    result: multilineText(TEXT_MAX).optional(),
    error: multilineText(TEXT_MAX).optional(),
    models: z.record(line(128), Model).optional(),
  })
  .refine(({ result, error }) => !(result && error), 'must not have both a result and an error')
  .refine(({ status, error }) => !(status === 'success' && error), 'must not have an error and the status success')

/** A visitor may have made the agent report it, to spend the budget of the folder. */
function mustBePayable({ limits }: InstanceHost, models: readonly z.output<typeof Model>[]): void {
  const cents = models.reduce((sum, { cost_cents }) => sum + cost_cents, 0)
  if (cents <= limits.externalCostMaxUsd * 100) return
  refuse('invalid', `models must cost at most ${limits.externalCostMaxUsd} dollars together, and cost ${cents / 100}`)
}

/** Recorded once; repeated submissions are ignored. */
export async function handleSubmitTurn(
  host: InstanceHost,
  folder: string,
  connectionTurn: TurnMeta | undefined,
  params: Readonly<Record<string, unknown>>,
): Promise<void> {
  if (params.turn_id === undefined || params.turn_id === '') refuse('invalid', 'turn_id required')
  const { _meta, ...members } = params
  const { turn_id, session_id, status, error, models = {}, ...rest } = parse(SubmitTurnParams, members)
  mustBePayable(host, Object.values(models))
  const { text: result, statuses } = filterOutput(rest.result ?? '')
  const submission: TurnSubmission = {
    turn_id,
    session_id,
    status: status ?? (error ? 'error' : 'success'),
    result,
    error,
    fence: connectionTurn?.id === turn_id ? connectionTurn.fence : undefined,
    models: Object.entries(models).map(([model, { input, output, cost_cents }]) => ({
      model,
      input_tokens: input,
      output_tokens: output,
      cost_cents,
    })),
  }
  const keys = await host.engine.transaction(async (tx) => {
    const changedKeys: string[] = []
    const turn = await turns.find(tx, { id: turn_id, folder })
    const isFirst = turn?.state === 'running' && turn.submitted === undefined
    if (turn && isFirst)
      for (const text of statuses) changedKeys.push(...(await recordStatus(tx, host, turn, text)).keys)
    changedKeys.push(...(await submitTurn(tx, writeContextOf(host), host.rules, folder, submission)))
    return changedKeys
  })
  host.signals.emit(keys)
}
