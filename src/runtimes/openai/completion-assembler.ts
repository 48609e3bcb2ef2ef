// Puts a streamed answer together: words in pieces, tool calls in pieces of pieces, the usage at the end. A whole answer that
// was not streamed fits as well.
import type { Completion, ModelToolCall } from './completion.ts'
import { type ProviderError, readError } from './provider-error.ts'

interface ToolCallDelta {
  readonly index?: number
  readonly id?: string
  readonly function?: { readonly name?: string; readonly arguments?: string }
}

interface Chunk {
  readonly error?: unknown
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null
  readonly choices?: readonly {
    readonly delta?: Piece
    readonly message?: Piece
    readonly finish_reason?: string | null
  }[]
}

interface Piece {
  readonly content?: string | null
  readonly refusal?: string | null
  readonly tool_calls?: readonly ToolCallDelta[] | null
}

interface Call {
  id: string
  name: string
  args: string
}

const ENDS: Readonly<Record<string, Completion['end']>> = { length: 'cut', content_filter: 'withheld' }

export class CompletionAssembler {
  #text = ''
  #refusal = ''
  #end: Completion['end'] = 'whole'
  readonly #calls = new Map<number, Call>()
  #input = 0
  #output = 0
  /** Whether it came to its end; a stream that is cut does not. */
  isDone = false
  error: ProviderError | undefined

  /** What follows `data:`, or a whole answer. What is no JSON says nothing. */
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
    if (chunk.error !== undefined && chunk.error !== null) this.error = readError(chunk.error)
    this.#input = countOf(chunk.usage?.prompt_tokens) ?? this.#input
    this.#output = countOf(chunk.usage?.completion_tokens) ?? this.#output
    const [choice] = Array.isArray(chunk.choices) ? chunk.choices : []
    if (!choice) return
    this.#add(choice.delta ?? choice.message ?? {})
    if (typeof choice.finish_reason !== 'string') return
    this.isDone = true
    this.#end = ENDS[choice.finish_reason] ?? 'whole'
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
    return { text: this.#text || this.#refusal, calls, end: this.#end, input: this.#input, output: this.#output }
  }

  #add({ content, refusal, tool_calls }: Piece): void {
    if (typeof content === 'string') this.#text += content
    if (typeof refusal === 'string') this.#refusal += refusal
    for (const [at, piece] of (Array.isArray(tool_calls) ? tool_calls : []).entries())
      if (typeof piece === 'object' && piece !== null) this.#addCall(at, piece)
  }

  /** Some say only in the first piece of a call which it is, and some repeat its name. */
  #addCall(at: number, piece: ToolCallDelta): void {
    const index = typeof piece.index === 'number' ? piece.index : at
    const call = this.#calls.get(index) ?? { id: '', name: '', args: '' }
    if (typeof piece.id === 'string' && piece.id !== '') call.id = piece.id
    const { name, arguments: args } = piece.function ?? {}
    if (typeof name === 'string' && name !== '') call.name = name
    if (typeof args === 'string') call.args += args
    this.#calls.set(index, call)
  }
}

function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? Math.round(value) : undefined
}
