// What the Claude Code command line prints with `--output-format stream-json`: one JSON object a line. Lines that are no
// JSON, or of a kind that is not known here, say nothing.
import type { ModelCost } from '../../core/turns/turns.ts'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import { type ModelUsage, toWholeCents } from '../cost.ts'
import { MCP_SERVER_NAME } from '../mcp-config.ts'

/** Beyond any sum that can be right: what a program claims must stay a number that can be added up. */
const AMOUNT_MAX = 1e12

type Json = Readonly<Record<string, unknown>>

export class StreamJsonReader {
  #session: string | undefined
  #model: string | undefined
  #result: Json | undefined
  #refusal: string | undefined
  #toolStatus: string | undefined

  push(line: string): void {
    const event = readObject(line)
    if (!event) return
    if (typeof event.session_id === 'string' && event.session_id !== '') this.#session = event.session_id
    if (event.type === 'system' && typeof event.model === 'string') this.#model = event.model
    if (event.type === 'system' && event.subtype === 'init') this.#toolStatus = statusOf(event.mcp_servers)
    if (event.type === 'system' && event.subtype === 'api_retry') this.#refusal ??= refusalOf(event)
    if (event.type === 'result') this.#result = event
  }

  /** Why the provider does not take its key. The client would ask for minutes all the same. */
  get keyRejection(): string | undefined {
    return this.#refusal
  }

  /** How its tool server stood when it began, where that was not `connected`: its turn has no tools then. */
  get toolServerFailure(): string | undefined {
    return this.#toolStatus === 'connected' ? undefined : this.#toolStatus
  }

  get sessionId(): string | undefined {
    return this.#session
  }

  /** How it came to an end; absent where it never said. */
  get isDone(): boolean {
    return this.#result !== undefined
  }

  get isError(): boolean {
    return this.#result?.is_error === true || String(this.#result?.subtype ?? '').startsWith('error')
  }

  get isOverBudget(): boolean {
    return this.#result?.subtype === 'error_max_budget_usd'
  }

  /** The answer, or what went wrong. */
  get text(): string {
    const { result, errors, subtype } = this.#result ?? {}
    if (typeof result === 'string' && result !== '') return result
    if (Array.isArray(errors) && errors.length > 0) return errors.map(String).join('; ')
    return this.isError ? String(subtype ?? 'it failed').replaceAll('_', ' ') : ''
  }

  /** Each model apart where that is said. */
  get models(): readonly ModelCost[] {
    const { modelUsage, usage, total_cost_usd } = this.#result ?? {}
    const each = Object.entries(isObject(modelUsage) ? modelUsage : {}).flatMap(([model, used]) =>
      isObject(used) ? [usedOf(model, used.inputTokens, used.outputTokens, used.costUSD)] : [],
    )
    if (each.length > 0) return toWholeCents(each)
    if (!isObject(usage) && total_cost_usd === undefined) return []
    const tokens = isObject(usage) ? usage : {}
    const model = this.#model ?? 'claude'
    return toWholeCents([usedOf(model, tokens.input_tokens, tokens.output_tokens, total_cost_usd)])
  }
}

/** The status of our server among those that it names. */
function statusOf(servers: unknown): string | undefined {
  const own = Array.isArray(servers)
    ? servers.find((server) => isObject(server) && server.name === MCP_SERVER_NAME)
    : undefined
  return isObject(own) && typeof own.status === 'string' ? own.status : undefined
}

function refusalOf({ error_status: status, error }: Json): string | undefined {
  if (status !== 401 && status !== 403) return undefined
  return `the model's endpoint answers ${status}: ${typeof error === 'string' ? error : 'it does not take the key'}`
}

function usedOf(model: string, input: unknown, output: unknown, usd: unknown): ModelUsage {
  return { model, input: amountOf(input), output: amountOf(output), cents: amountOf(usd) * 100 }
}

function amountOf(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.min(value, AMOUNT_MAX) : 0
}

function readObject(line: string): Json | undefined {
  const read = tryParseJson(line)
  return isObject(read) ? read : undefined
}
