// Reads the output of Claude Code with `--output-format stream-json`: one JSON object per line. Ignores lines that are not
// JSON or have an unknown type.
import type { ModelCost } from '../../core/turns/turns.ts'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import { type ModelUsage, toWholeCents } from '../cost.ts'
import { MCP_SERVER_NAME } from '../mcp-config.ts'

/** Caps the amounts that the client reports, so that sums stay finite and exact. */
const AMOUNT_MAX = 1e12

type JsonObject = Readonly<Record<string, unknown>>

export class StreamJsonReader {
  #session: string | undefined
  #model: string | undefined
  #result: JsonObject | undefined
  #keyRejection: string | undefined
  #toolStatus: string | undefined
  /** Whether a line was too long to be read: if there is no result, it was that. */
  hasLongLine = false

  skip(): void {
    this.hasLongLine = true
  }

  push(line: string): void {
    const event = tryParseJson(line)
    if (!isObject(event)) return
    if (typeof event.session_id === 'string' && event.session_id !== '') this.#session = event.session_id
    if (event.type === 'system' && typeof event.model === 'string') this.#model = event.model
    if (event.type === 'system' && event.subtype === 'init') this.#toolStatus = findToolServerStatus(event.mcp_servers)
    if (event.type === 'system' && event.subtype === 'api_retry') this.#keyRejection ??= describeKeyRejection(event)
    if (event.type === 'result') this.#result = event
  }

  /** Set when the provider rejects the key. The client itself would retry for minutes. */
  get keyRejection(): string | undefined {
    return this.#keyRejection
  }

  /** The status of the tool server at start if it was not `connected`: the turn would have no tools. */
  get toolServerFailure(): string | undefined {
    return this.#toolStatus === 'connected' ? undefined : this.#toolStatus
  }

  get sessionId(): string | undefined {
    return this.#session
  }

  /** Whether the client printed a result. */
  get isDone(): boolean {
    return this.#result !== undefined
  }

  get isError(): boolean {
    return this.#result?.is_error === true || textOf(this.#result?.subtype ?? '').startsWith('error')
  }

  get isOverBudget(): boolean {
    return this.#result?.subtype === 'error_max_budget_usd'
  }

  /** The answer, or the error. */
  get text(): string {
    const { result, errors, subtype } = this.#result ?? {}
    if (typeof result === 'string' && result !== '') return result
    if (Array.isArray(errors) && errors.length > 0) return errors.map(textOf).join('; ')
    return this.isError ? textOf(subtype ?? 'the client failed').replaceAll('_', ' ') : ''
  }

  /** One entry per model if the client reports them separately. */
  get models(): readonly ModelCost[] {
    const { modelUsage, usage, total_cost_usd } = this.#result ?? {}
    const each = Object.entries(isObject(modelUsage) ? modelUsage : {}).flatMap(([model, used]) =>
      isObject(used) ? [toUsage(model, used.inputTokens, used.outputTokens, used.costUSD)] : [],
    )
    if (each.length > 0) return toWholeCents(each)
    if (!isObject(usage) && total_cost_usd === undefined) return []
    const tokens = isObject(usage) ? usage : {}
    const model = this.#model ?? 'claude'
    return toWholeCents([toUsage(model, tokens.input_tokens, tokens.output_tokens, total_cost_usd)])
  }
}

function findToolServerStatus(servers: unknown): string | undefined {
  const own = Array.isArray(servers)
    ? servers.find((server) => isObject(server) && server.name === MCP_SERVER_NAME)
    : undefined
  return isObject(own) && typeof own.status === 'string' ? own.status : undefined
}

function describeKeyRejection({ error_status: status, error }: JsonObject): string | undefined {
  if (status !== 401 && status !== 403) return undefined
  return `the model's endpoint answers ${status}: ${typeof error === 'string' ? error : 'the key was rejected'}`
}

function toUsage(model: string, input: unknown, output: unknown, usd: unknown): ModelUsage {
  return { model, input: toAmount(input), output: toAmount(output), cents: toAmount(usd) * 100 }
}

function toAmount(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.min(value, AMOUNT_MAX) : 0
}

/** `String` throws for an object with a member `toString`. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
