// Parses the errors of OpenAI-compatible endpoints. Each server reports a conversation that exceeds the model's context, and
// images that it cannot see, in its own words, with status 400, 404, 413, 422, 500, or inside a stream that began with 200.

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

const BLIND_TEXTS = [
  // OpenAI, Mistral, Ollama, LM Studio, llama.cpp: "image_url is only supported by certain models", "image input is not supported".
  /\b(?:images?|image_url|vision|image inputs?)\b.{0,40}\b(?:not (?:supported|enabled|available)|only supported|unsupported)\b/i,
  // OpenRouter: "No endpoints found that support image input"; others: "the model does not support images".
  /\b(?:not|doesn't|don't|no endpoints found that) support\b.{0,60}\b(?:images?|image_url|vision|multi-?modal)\b/i,
  // vLLM, and llama.cpp without a projector.
  /\bnot a multi-?modal model\b|\bmmproj\b/i,
  // Servers that know only texts: "unknown variant `image_url`", "messages[1].content must be a string".
  /\bunknown variant .?image_url\b|\bcontent\b.{0,20}\bmust be a string\b/i,
]

/** Whether the model cannot see images at all; an image that cannot be decoded is no such error. */
export function isBlind({ message }: ProviderError): boolean {
  return BLIND_TEXTS.some((text) => text.test(message))
}
