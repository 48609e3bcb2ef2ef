// Decodes the bytes of a manifest, and refuses invisible characters with their lines before the YAML parser sees them.
import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { refuse } from '../../lib/refusal.ts'
import { ManifestErrors } from './manifest-errors.ts'

export const MANIFEST_MAX_BYTES = 64 * 1024 * 1024

/** Characters that YAML does not allow (lone surrogates among them), tabs, and carriage returns without a line feed. */
const FORBIDDEN = /[\u0000-\u0009\v\f\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff\p{Surrogate}]|\r(?!\n)/gu
const BOM = '\ufeff'
const NEWLINE = 0x0a

interface DecodedManifest {
  text: string
  /** Of the original bytes. */
  sha256: string
}

export function decodeManifest(input: string | Uint8Array): DecodedManifest {
  const bytes =
    typeof input === 'string' ? Buffer.from(input) : Buffer.from(input.buffer, input.byteOffset, input.length)
  if (bytes.length > MANIFEST_MAX_BYTES)
    refuse('too_large', `the manifest is larger than ${MANIFEST_MAX_BYTES / 1024 / 1024} MiB`)
  const errors = new ManifestErrors()
  if (!isUtf8(bytes)) errors.add(findInvalidLine(bytes), 'invalid UTF-8')
  const text = typeof input === 'string' ? input : bytes.toString('utf8')
  reportForbidden(text, errors)
  errors.throwIfAny()
  return {
    text: text.startsWith(BOM) ? text.slice(BOM.length) : text,
    sha256: createHash('sha256').update(bytes).digest('hex'),
  }
}

function findInvalidLine(bytes: Buffer): number {
  let line = 1
  for (let start = 0; ; line++) {
    const end = bytes.indexOf(NEWLINE, start)
    if (end < 0 || !isUtf8(bytes.subarray(start, end))) return line
    start = end + 1
  }
}

/** Reports only the first character of each line. */
function reportForbidden(text: string, errors: ManifestErrors): void {
  let [line, from, reportedLine] = [1, 0, 0]
  for (const { 0: char, index } of text.matchAll(FORBIDDEN)) {
    for (let end = text.indexOf('\n', from); end >= 0 && end < index; end = text.indexOf('\n', from)) {
      line++
      from = end + 1
    }
    if (reportedLine === line) continue
    reportedLine = line
    errors.add(line, describeForbidden(char))
  }
}

function describeForbidden(char: string): string {
  if (char === '\t') return 'contains a tab: indent with spaces, and write a tab in text as \\t in double quotes'
  if (char === '\r') return 'contains a carriage return without a line feed'
  const code = char.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')
  return `contains the character U+${code}: write it as \\u${code} in double quotes`
}
