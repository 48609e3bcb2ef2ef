// Redacts credentials in text: tokens of links and invites, bearers, and the hexadecimal secrets of `svc create` and channel
// registrations.
import { hash } from 'node:crypto'
import { TOKEN_LAST_CHARACTER, TOKEN_LENGTH } from '../token-format.ts'

const TOKEN_END = new RegExp(`${TOKEN_LAST_CHARACTER}$`)
const HEX_SECRET = /^(?:[0-9a-f]{48}|[0-9a-f]{64})$/
const BEARER_START = /^[-_]*eyJ/

const IN_RUN = new Uint8Array(128)
for (const letter of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_')
  IN_RUN[letter.charCodeAt(0)] = 1

// Each alternative is decided by its first character, so no text makes them backtrack.
const RUNS = /[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*/g
const RUNS_IN_JSON = /\\(?:u[0-9a-fA-F]{4}|[^u])|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*/g

/** Replaces each credential by the start of its digest, and each bearer by `<bearer>`. */
export function redact(text: string): string {
  return hasLongRun(text) ? text.replace(RUNS, redactRun) : text
}

/** Like `redact`, for text with JSON strings: the letter of an escape such as `\n` is not part of the run after it. */
export function redactJson(text: string): string {
  return hasLongRun(text) ? text.replace(RUNS_IN_JSON, redactRun) : text
}

/** The name under which a credential may be redacted: the first 8 hex digits of its SHA-256. */
export function digestOf(secret: string): string {
  return hash('sha256', secret, 'hex').slice(0, 8)
}

/**
 * Whether the text can contain a credential; false for nearly every log line. Checks the end of each window of the minimum
 * length first, so it reads only a small part of ordinary text.
 */
function hasLongRun(text: string): boolean {
  for (let end = TOKEN_LENGTH - 1; end < text.length; ) {
    let at = end
    while (at > end - TOKEN_LENGTH && IN_RUN[text.charCodeAt(at)] === 1) at--
    if (at === end - TOKEN_LENGTH) return true
    end = at + TOKEN_LENGTH
  }
  return false
}

function redactRun(run: string): string {
  if (run.length < TOKEN_LENGTH) return run
  const parts = run.split('.')
  const redacted: string[] = []
  for (let at = 0; at < parts.length; at++) {
    const part = parts[at] ?? ''
    if (at + 2 < parts.length && BEARER_START.test(part)) {
      redacted.push('<bearer>')
      at += 2
    } else redacted.push(redactPart(part))
  }
  return redacted.join('.')
}

/** Markdown uses "_" for emphasis, but "_" and "-" also occur in tokens. */
function redactPart(part: string): string {
  if (part.length < TOKEN_LENGTH) return part
  let end = part.length
  while (isStress(part, end - 1)) end--
  const start = end - TOKEN_LENGTH
  if (start >= 0 && areStress(part, start) && TOKEN_END.test(part.slice(end - 1, end)))
    return `${part.slice(0, start)}${digestOf(part.slice(start, end))}${part.slice(end)}`
  let first = 0
  while (isStress(part, first)) first++
  const core = part.slice(first, Math.max(first, end))
  return core.length <= 64 && HEX_SECRET.test(core)
    ? `${part.slice(0, first)}${digestOf(core)}${part.slice(end)}`
    : part
}

function isStress(text: string, at: number): boolean {
  return text[at] === '_' || text[at] === '-'
}

function areStress(text: string, until: number): boolean {
  for (let at = 0; at < until; at++) if (!isStress(text, at)) return false
  return true
}
