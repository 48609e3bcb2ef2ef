// Parses the errors of OpenAI-compatible endpoints. Each server reports a conversation that exceeds the model's context in
// its own words, with status 400, 413, 422, 500, or inside a stream that began with 200.

export interface ProviderError {
  readonly message: string
  readonly code?: string
  readonly type?: string
}

const UNKNOWN = 'no reason given'
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

/** The error in a response body; if it contains none, the first line of the body. */
export function parseErrorBody(text: string): ProviderError {
  try {
    const parsed: unknown = JSON.parse(text)
    const { error, message } = Object(parsed)
    if (error !== undefined && error !== null) return toProviderError(error)
    // vLLM does not wrap its error in a member `error`.
    if (typeof message === 'string') return toProviderError(parsed)
  } catch {
    // Not JSON.
  }
  return { message: text.trim().split('\n')[0]?.slice(0, 200) || UNKNOWN }
}

export function toProviderError(error: unknown): ProviderError {
  if (typeof error === 'string') return { message: error }
  const { message, code, type } = Object(error)
  return {
    message: typeof message === 'string' && message !== '' ? message : UNKNOWN,
    ...(typeof code === 'string' ? { code } : {}),
    ...(typeof type === 'string' ? { type } : {}),
  }
}

/** Whether the conversation exceeds the model's context. */
export function isTooLong({ message, code = '', type = '' }: ProviderError): boolean {
  return TOO_LONG_NAMES.has(code) || TOO_LONG_NAMES.has(type) || TOO_LONG_TEXTS.some((text) => text.test(message))
}
