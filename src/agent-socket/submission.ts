// The hidden method submit_turn: what a run says of itself at its end.
import { z } from 'zod'
import { filterOutput } from '../core/output-filter.ts'
import { speakingOf } from '../core/rounds.ts'
import { type Submission, submitTurn, turns } from '../core/turns.ts'
import { line, prose } from '../core/values.ts'
import { parse } from '../lib/parse.ts'
import { refuse } from '../lib/refusal.ts'
import type { Host } from '../registry/context.ts'
import type { NamedTurn } from './naming.ts'
import { sayStatus } from './status.ts'

const TEXT_MAX = 4 * 1024 * 1024
const Tokens = z.int().min(0).max(1_000_000_000_000).default(0)

const Model = z.strictObject({
  input: Tokens,
  output: Tokens,
  /** Parts of a cent count as a whole one. */
  cost_cents: z.number().min(0).max(1_000_000_000).default(0).transform(Math.ceil),
})

const Submitted = z
  .strictObject({
    turn_id: line(256),
    session_id: z.literal('').or(line(256)).optional(),
    status: z.enum(['success', 'error']).optional(),
    result: prose(TEXT_MAX).optional(),
    error: prose(TEXT_MAX).optional(),
    models: z.record(line(128), Model).optional(),
  })
  .refine(({ result, error }) => !(result && error), 'must not have both a result and an error')
  .refine(({ status, error }) => !(status === 'success' && error), 'must not have an error and the status success')

/** Records it, once; what a repeat says is passed over. */
export async function takeSubmission(
  host: Host,
  folder: string,
  named: NamedTurn | undefined,
  params: Readonly<Record<string, unknown>>,
): Promise<void> {
  if (params.turn_id === undefined || params.turn_id === '') refuse('invalid', 'turn_id required')
  const { _meta, ...members } = params
  const { turn_id, session_id, status, error, models = {}, ...given } = parse(Submitted, members)
  const { text: result, statuses } = filterOutput(given.result ?? '')
  const submission: Submission = {
    turn_id,
    session_id,
    status: status ?? (error ? 'error' : 'success'),
    result,
    error,
    fence: named?.id === turn_id ? named.fence : undefined,
    models: Object.entries(models).map(([model, { input, output, cost_cents }]) => ({
      model,
      input_tokens: input,
      output_tokens: output,
      cost_cents,
    })),
  }
  const keys = await host.engine.transaction(async (tx) => {
    const speaking = speakingOf(host)
    const said: string[] = []
    const turn = await turns.find(tx, { id: turn_id, folder })
    const isFirst = turn?.state === 'running' && turn.submitted === undefined
    if (turn && isFirst) for (const text of statuses) said.push(...(await sayStatus(tx, host, turn, text)).keys)
    said.push(...(await submitTurn(tx, speaking, host.rules, folder, submission)))
    return said
  })
  host.signals.emit(keys)
}
