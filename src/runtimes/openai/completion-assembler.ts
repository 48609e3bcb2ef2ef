// Assembles a completion from the chunks of a stream: text and tool calls in deltas, the usage at the end. It also accepts a
// response that was not streamed.
import { type ProviderError, toProviderError } from './provider-error.ts'

export interface ModelToolCall {
  readonly id: string
  readonly type: 'function'
  readonly function: { readonly name: string; readonly arguments: string }
}

export interface Completion {
  /** The text of the model, or its refusal to answer. */
  readonly text: string
  /** `truncated` at the model's length limit, or `filtered` by the provider's content filter. */
  readonly end: 'complete' | 'truncated' | 'filtered'
  readonly calls: readonly ModelToolCall[]
  readonly inputTokens: number
  /** The part of the input tokens that the provider had in its cache. */
  readonly cachedTokens: number
  readonly outputTokens: number
  /** In dollars, as the provider reports it. */
  readonly cost?: number | undefined
}

interface ToolCallDelta {
  readonly index?: number
  readonly id?: string
  readonly function?: { readonly name?: string; readonly arguments?: string }
}

interface Chunk {
  readonly error?: unknown
  readonly usage?: {
    readonly prompt_tokens?: number
    readonly completion_tokens?: number
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
    /** DeepSeek's name of the cached tokens. */
    readonly prompt_cache_hit_tokens?: number
    readonly cost?: unknown
  } | null
  readonly choices?: readonly {
    readonly delta?: Delta
    readonly message?: Delta
    readonly finish_reason?: string | null
  }[]
}

interface Delta {
  readonly content?: string | null
  readonly refusal?: string | null
  readonly tool_calls?: readonly ToolCallDelta[] | null
}

interface PartialCall {
  id: string
  name: string
  args: string
}

const ENDS: Readonly<Record<string, Completion['end']>> = { length: 'truncated', content_filter: 'filtered' }

export class CompletionAssembler {
  readonly #onText: (text: string) => void
  #text = ''
  #refusal = ''
  #end: Completion['end'] = 'complete'
  readonly #calls = new Map<number, PartialCall>()
  #input = 0
  #cached = 0
  #output = 0
  #cost: number | undefined
  /** Whether the completion is finished; false if the stream ended early. */
  isDone = false
  error: ProviderError | undefined
  /** Characters of the answer and of the arguments of tool calls so far. */
  length = 0

  constructor(onText: (text: string) => void = () => undefined) {
    this.#onText = onText
  }

  /** Takes the data of one event, or a whole response. Ignores text that is not JSON. */
  push(json: string): void {
    if (json.trim() === '[DONE]') {
      this.isDone = true
      return
    }
    let chunk: Chunk | null
    try {
      chunk = JSON.parse(json)
    } catch {
      return
    }
    if (typeof chunk !== 'object' || chunk === null) return
    if (chunk.error !== undefined && chunk.error !== null) this.error = toProviderError(chunk.error)
    this.#input = toCount(chunk.usage?.prompt_tokens) ?? this.#input
    this.#output = toCount(chunk.usage?.completion_tokens) ?? this.#output
    const cached = chunk.usage?.prompt_tokens_details?.cached_tokens ?? chunk.usage?.prompt_cache_hit_tokens
    this.#cached = toCount(cached) ?? this.#cached
    this.#cost = toAmount(chunk.usage?.cost) ?? this.#cost
    const [choice] = Array.isArray(chunk.choices) ? chunk.choices : []
    if (!choice) return
    this.#add(choice.delta ?? choice.message ?? {})
    if (typeof choice.finish_reason !== 'string') return
    this.isDone = true
    this.#end = ENDS[choice.finish_reason] ?? 'complete'
  }

  completion(): Completion {
    const calls = [...this.#calls.entries()]
      .sort(([a], [b]) => a - b)
      .map(
        ([at, { id, name, args }]): ModelToolCall => ({
          id: id || `call_${at}`,
          type: 'function',
          function: { name, arguments: args || '{}' },
        }),
      )
    return {
      text: this.#text || this.#refusal,
      calls,
      end: this.#end,
      inputTokens: this.#input,
      cachedTokens: Math.min(this.#cached, this.#input),
      outputTokens: this.#output,
      cost: this.#cost,
    }
  }

  #add({ content, refusal, tool_calls }: Delta): void {
    if (typeof content === 'string' && content !== '') {
      this.#text += content
      this.#onText(content)
    }
    if (typeof refusal === 'string') this.#refusal += refusal
    this.length +=
      (typeof content === 'string' ? content.length : 0) + (typeof refusal === 'string' ? refusal.length : 0)
    for (const [at, piece] of (Array.isArray(tool_calls) ? tool_calls : []).entries())
      if (typeof piece === 'object' && piece !== null) this.#addCall(at, piece)
  }

  /** Some servers send the index and id of a call only in its first delta, and some repeat its name. */
  #addCall(at: number, piece: ToolCallDelta): void {
    const index = typeof piece.index === 'number' ? piece.index : at
    const call = this.#calls.get(index) ?? { id: '', name: '', args: '' }
    if (typeof piece.id === 'string' && piece.id !== '') call.id = piece.id
    const { name, arguments: args } = piece.function ?? {}
    if (typeof name === 'string' && name !== '') call.name = name
    if (typeof args === 'string') {
      call.args += args
      this.length += args.length
    }
    this.#calls.set(index, call)
  }
}

function toCount(value: unknown): number | undefined {
  const amount = toAmount(value)
  return amount === undefined ? undefined : Math.round(amount)
}

function toAmount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined
}
