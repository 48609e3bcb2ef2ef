// Names of files as senders give them. They are shown and sent back, and never part of a path.
import { replaceHidden } from '../../lib/text/hidden-characters.ts'
import { codePoints } from '../values.ts'

export const FILE_NAME_MAX = 255
const EXTENSION_MAX = 16

/** The last part of a path, in a form that can be shown; `file` if nothing is left. "gpj.exe" must not look like "exe.jpg". */
export function showableFileName(given: string): string {
  const [base = ''] = given.split(/[/\\]/).slice(-1)
  const name = replaceHidden(base.toWellFormed(), '').replace(/\s+/g, ' ').trim()
  if (/^\.{0,2}$/.test(name)) return 'file'
  return codePoints(name) > FILE_NAME_MAX ? cutName(name) : name
}

/** Keeps the extension. */
function cutName(name: string): string {
  const [extension = ''] = /\.[^.\s]{1,16}$/u.exec(name) ?? []
  return `${[...name.slice(0, name.length - extension.length)].slice(0, FILE_NAME_MAX - EXTENSION_MAX - 1).join('')}${extension}`
}

/** The name in a part of a form: browsers write quotes and line breaks as in URLs, other programs as in RFC 5987. */
export function fileNameOfPart(written: string): string {
  const [, extended] = /^utf-8'[^']*'(.*)$/is.exec(written) ?? []
  if (extended !== undefined) return showableFileName(decodePercent(extended) ?? written)
  return showableFileName(written.replace(/%22/g, '"').replace(/%0[ad]/gi, ''))
}

function decodePercent(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** Content-Disposition with the name for all browsers (RFC 6266). */
export function contentDisposition(kind: 'attachment' | 'inline', name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, '_')
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `${kind}; filename="${plain}"; filename*=UTF-8''${encoded}`
}
