// Reads the output of Claude Code with `--output-format stream-json`: one JSON object per line. Ignores lines that are not
// JSON or have an unknown type.
import type { ModelUsage } from '../../core/turns/costs.ts'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import { MCP_SERVER_NAME } from '../mcp-config.ts'
import type { DraftText, ProgramCalls } from '../runtime.ts'
import type { ModelPrice } from '../settings.ts'
import { ClientToolCalls } from './client-tools.ts'

/** Caps the amounts that the client reports, so that sums stay finite and exact. */
const AMOUNT_MAX = 1e12
/** Messages of the model in one run, for the estimate; later ones are not counted. */
const MESSAGES_MAX = 10_000
/** Writing to the cache costs this much more than other input. */
const CACHE_WRITE_FACTOR = 1.25

type JsonObject = Readonly<Record<string, unknown>>

export class StreamJsonReader {
  #session: string | undefined
  #model: string | undefined
  #result: JsonObject | undefined
  #keyRejection: string | undefined
  #toolStatus: string | undefined
  readonly #priceOf: (model: string) => ModelPrice | undefined
  readonly #draft: DraftText | undefined
  readonly #calls: ClientToolCalls
  /** What each message of the model has used; the client prints a message once for each of its parts. */
  readonly #messages = new Map<string, ModelUsage>()
  readonly #estimate = new Map<string, ModelUsage>()
  /** Whether a line was too long to be read: if there is no result, it was that. */
  hasLongLine = false

  /** `priceOf` is for the estimate until the client reports what it has cost. */
  constructor(
    priceOf: (model: string) => ModelPrice | undefined = () => undefined,
    draft?: DraftText,
    calls?: ProgramCalls,
  ) {
    this.#priceOf = priceOf
    this.#draft = draft
    this.#calls = new ClientToolCalls(calls)
  }

  skip(): void {
    this.hasLongLine = true
  }

  /** Returns whether `used` may have changed. */
  push(line: string): boolean {
    const event = tryParseJson(line)
    if (!isObject(event)) return false
    if (typeof event.session_id === 'string' && event.session_id !== '') this.#session = event.session_id
    if (event.type === 'system' && typeof event.model === 'string') this.#model = event.model
    if (event.type === 'system' && event.subtype === 'init') this.#toolStatus = findToolServerStatus(event.mcp_servers)
    if (event.type === 'system' && event.subtype === 'api_retry') this.#keyRejection ??= describeKeyRejection(event)
    if (event.type === 'stream_event' && event.parent_tool_use_id == null) this.#addToDraft(event.event)
    if (event.type === 'assistant') this.#addMessage(event.message)
    if (event.type === 'assistant' || event.type === 'user') this.#calls.read(event.message)
    if (event.type === 'result') this.#result = event
    return event.type === 'assistant' || event.type === 'result'
  }

  /** An event of the provider's stream. Those of agents below the main one are not of its answer. */
  #addToDraft(event: unknown): void {
    if (!isObject(event)) return
    const { type, delta } = event
    if (type === 'message_start') {
      this.#draft?.restart()
      this.#calls.endAll()
    }
    if (type === 'content_block_delta' && isObject(delta) && typeof delta.text === 'string')
      this.#draft?.add(delta.text)
  }

  #addMessage(message: unknown): void {
    if (!isObject(message) || !isObject(message.usage)) return
    const { id, model, usage } = message
    if (typeof id !== 'string' || typeof model !== 'string') return
    const before = this.#messages.get(id)
    if (!before && this.#messages.size >= MESSAGES_MAX) return
    const used = this.#estimateMessage(model, usage)
    this.#messages.set(id, used)
    const sum = this.#estimate.get(model) ?? { model, input: 0, output: 0, cents: 0 }
    const change = (name: 'input' | 'output' | 'cents'): number =>
      Math.max(0, sum[name] + used[name] - (before?.model === model ? before[name] : 0))
    this.#estimate.set(model, { model, input: change('input'), output: change('output'), cents: change('cents') })
  }

  #estimateMessage(model: string, usage: JsonObject): ModelUsage {
    const [input, output] = [toAmount(usage.input_tokens), toAmount(usage.output_tokens)]
    const [read, written] = [toAmount(usage.cache_read_input_tokens), toAmount(usage.cache_creation_input_tokens)]
    const price = this.#priceOf(model) ?? { input: 0, cached: 0, output: 0 }
    const inputCents = (input + written * CACHE_WRITE_FACTOR) * price.input + read * price.cached
    return { model, input: input + read + written, output, cents: (inputCents + output * price.output) / 1_000_000 }
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

  /** What the client reports at its end, by model if it reports them separately; until then, an estimate. */
  get used(): readonly ModelUsage[] {
    if (!this.#result) return [...this.#estimate.values()]
    const { modelUsage, usage, total_cost_usd } = this.#result
    const each = Object.entries(isObject(modelUsage) ? modelUsage : {}).flatMap(([model, used]) =>
      isObject(used) ? [toUsage(model, used.inputTokens, used.outputTokens, used.costUSD)] : [],
    )
    if (each.length > 0) return each
    if (!isObject(usage) && total_cost_usd === undefined) return [...this.#estimate.values()]
    const tokens = isObject(usage) ? usage : {}
    const model = this.#model ?? 'claude'
    return [toUsage(model, tokens.input_tokens, tokens.output_tokens, total_cost_usd)]
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
