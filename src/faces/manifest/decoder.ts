// The bytes of a manifest as text, or a refusal that names the line: nothing invisible gets as far as the parser.
import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { refuse } from '../../lib/refusal.ts'
import { ManifestErrors } from './manifest-errors.ts'

export const MANIFEST_MAX_BYTES = 64 * 1024 * 1024

/** What YAML does not allow (half characters among it), tabs, and carriage returns that end no line. */
const UNWELCOME = /[\u0000-\u0009\v\f\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff\p{Surrogate}]|\r(?!\n)/gu
const BOM = '\ufeff'
const NEWLINE = 0x0a

export interface DecodedManifest {
  text: string
  /** Of the bytes as they were given. */
  sha256: string
}

export function decodeManifest(given: string | Uint8Array): DecodedManifest {
  const bytes =
    typeof given === 'string' ? Buffer.from(given) : Buffer.from(given.buffer, given.byteOffset, given.length)
  if (bytes.length > MANIFEST_MAX_BYTES)
    refuse('too_large', `the manifest is larger than ${MANIFEST_MAX_BYTES / 1024 / 1024} MiB`)
  const faults = new ManifestErrors()
  if (!isUtf8(bytes)) faults.add(brokenLine(bytes), 'is not valid UTF-8')
  const text = typeof given === 'string' ? given : bytes.toString('utf8')
  noteUnwelcome(text, faults)
  faults.throwIfAny()
  return {
    text: text.startsWith(BOM) ? text.slice(BOM.length) : text,
    sha256: createHash('sha256').update(bytes).digest('hex'),
  }
}

function brokenLine(bytes: Buffer): number {
  let line = 1
  for (let start = 0; ; line++) {
    const end = bytes.indexOf(NEWLINE, start)
    if (end < 0 || !isUtf8(bytes.subarray(start, end))) return line
    start = end + 1
  }
}

/** Once a line, whatever else stands there. */
function noteUnwelcome(text: string, faults: ManifestErrors): void {
  let [line, from, noted] = [1, 0, 0]
  for (const { 0: char, index } of text.matchAll(UNWELCOME)) {
    for (let end = text.indexOf('\n', from); end >= 0 && end < index; end = text.indexOf('\n', from)) {
      line++
      from = end + 1
    }
    if (noted === line) continue
    noted = line
    faults.add(line, unwelcome(char))
  }
}

function unwelcome(char: string): string {
  if (char === '\t')
    return 'holds a tab: indent with blanks, and write \\t between double quotes where a text needs one'
  if (char === '\r') return 'holds a carriage return that ends no line'
  const code = char.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')
  return `holds the character U+${code}: write it as \\u${code} between double quotes`
}
