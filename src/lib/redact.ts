// Takes credentials out of text before it is written down: tokens of links and invites, bearers, and the hexadecimal
// secrets that `svc create` and channel registrations make.
import { hash } from 'node:crypto'

/** 32 bytes in base64url. Every credential holds a run of at least so many of its letters. */
const TOKEN_LENGTH = 43
/** The two bits left over in the last letter of a token are zero. */
const TOKEN_END = /[AEIMQUYcgkosw048]$/
const HEX_SECRET = /^(?:[0-9a-f]{48}|[0-9a-f]{64})$/
const BEARER_START = /^[-_]*eyJ/

const IN_RUN = new Uint8Array(128)
for (const letter of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_')
  IN_RUN[letter.charCodeAt(0)] = 1

// Each alternative matches from its first character on, so that no text makes them backtrack.
const RUNS = /[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*/g
const RUNS_IN_JSON = /\\(?:u[0-9a-fA-F]{4}|[^u])|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*/g

/** The text with each credential replaced by the start of its digest, and each bearer by `<bearer>`. */
export function redact(text: string): string {
  return hasLongRun(text) ? text.replace(RUNS, redactRun) : text
}

/** The same for text that holds JSON strings: the letter of an escape such as `\n` is not part of what follows it. */
export function redactJson(text: string): string {
  return hasLongRun(text) ? text.replace(RUNS_IN_JSON, redactRun) : text
}

/** What a credential is called where it must not be shown: the first 8 hex digits of its sha256. */
export function digestOf(secret: string): string {
  return hash('sha256', secret, 'hex').slice(0, 8)
}

/**
 * Whether there is anything to look at: nearly always no, and asked of every log line. Looks at the end of a window of
 * the needed length first, so that it reads a small part of ordinary text.
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
  const shown: string[] = []
  for (let at = 0; at < parts.length; at++) {
    const part = parts[at] ?? ''
    if (at + 2 < parts.length && BEARER_START.test(part)) {
      shown.push('<bearer>')
      at += 2
    } else shown.push(redactPart(part))
  }
  return shown.join('.')
}

/** Markdown puts "_" around what it stresses; both signs are also letters of tokens. */
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
