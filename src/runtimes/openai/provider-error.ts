// The errors of OpenAI-compatible endpoints. Each server has its own words for a conversation that does not fit into the
// context of its model, with status 400, 413, 422, 500, or inside a stream that began with 200.

export interface ProviderError {
  readonly message: string
  readonly code?: string
  readonly type?: string
}

const UNKNOWN = 'it does not say why'
const TOO_LONG_NAMES = new Set(['context_length_exceeded', 'context_window_exceeded', 'exceed_context_size_error'])
const TOO_LONG_TEXTS = [
  // OpenAI, OpenRouter, vLLM, llama.cpp, LM Studio, Mistral: "maximum context length", "available context size", …
  /\bcontext (?:length|size|window)\b/i,
  // Endpoints of Anthropic's models.
  /\bprompt is too long\b/i,
  // Gemini: "input token count … exceeds the maximum number of tokens".
  /\btoken count\b.{0,80}\bexceeds\b/i,
  // Text Generation Inference: "`inputs` tokens + `max_new_tokens` must be <= 4096".
  /\btokens\b.{0,80}\bmust be <=/i,
]

/** The error that a body or an event of a stream holds; without one, the first line of the body. */
export function errorOf(text: string): ProviderError {
  try {
    const parsed: unknown = JSON.parse(text)
    const { error, message } = Object(parsed)
    if (error !== undefined && error !== null) return readError(error)
    // vLLM has no member `error` around it.
    if (typeof message === 'string') return readError(parsed)
  } catch {
    // It is not JSON.
  }
  return { message: text.trim().split('\n')[0]?.slice(0, 200) || UNKNOWN }
}

export function readError(error: unknown): ProviderError {
  if (typeof error === 'string') return { message: error }
  const { message, code, type } = Object(error)
  return {
    message: typeof message === 'string' && message !== '' ? message : UNKNOWN,
    ...(typeof code === 'string' ? { code } : {}),
    ...(typeof type === 'string' ? { type } : {}),
  }
}

/** Whether the conversation does not fit into the context of the model. */
export function isTooLong({ message, code = '', type = '' }: ProviderError): boolean {
  return TOO_LONG_NAMES.has(code) || TOO_LONG_NAMES.has(type) || TOO_LONG_TEXTS.some((text) => text.test(message))
}
