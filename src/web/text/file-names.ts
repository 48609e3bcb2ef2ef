// Names, types and sizes of files as visitors see them, and the limits of the files of a message.
import { replaceHidden } from '../../lib/text/hidden-characters.ts'
import type { ChatTexts } from '../texts/en.ts'
import { fill } from '../texts/language.ts'

interface NamedFile {
  readonly name: string
  readonly size: number
}

export interface AttachmentLimits {
  /** Bytes of one file. */
  readonly each: number
  readonly count: number
  /** Bytes of all files of a message. */
  readonly total: number
}

const NAMES_MAX = 3

/** The files that may be added to those of the message, and a sentence for each limit that keeps others out. */
export function admitFiles<F extends NamedFile>(
  present: readonly NamedFile[],
  incoming: readonly F[],
  limits: AttachmentLimits,
  texts: ChatTexts,
): { readonly admitted: F[]; readonly problems: string[] } {
  const admitted: F[] = []
  const refused = new Map<string, NamedFile[]>()
  for (const file of incoming) {
    const limit = limitAgainst(file, [...present, ...admitted], limits, texts)
    if (limit === undefined) admitted.push(file)
    else
      refused
        .set(limit, refused.get(limit) ?? [])
        .get(limit)
        ?.push(file)
  }
  const problems = [...refused].map(
    ([limit, files]) => `${fill(texts.notAdded, { names: listNames(files, texts) })} ${limit}`,
  )
  return { admitted, problems }
}

function limitAgainst(
  { size }: NamedFile,
  present: readonly NamedFile[],
  { each, count, total }: AttachmentLimits,
  texts: ChatTexts,
): string | undefined {
  if (size > each) return fill(texts.fileMax, { size: formatSize(each, texts) })
  if (present.length >= count) return fill(texts.filesMax, { count })
  return size + totalSize(present) > total ? fill(texts.filesTotalMax, { size: formatSize(total, texts) }) : undefined
}

/** Each name is isolated from the direction of the sentence, which browsers take from its first letter. */
function listNames(files: readonly NamedFile[], texts: ChatTexts): string {
  const names = files.slice(0, NAMES_MAX).map(({ name }) => `\u2068${displayName(name, texts)}\u2069`)
  const [all, count] = [names.join(', '), files.length - names.length]
  return count > 0 ? fill(texts.andMore, { names: all, count }) : all
}

/** Bytes that another file of the message may have. */
export function roomForFile(present: readonly NamedFile[], { each, count, total }: AttachmentLimits): number {
  return present.length < count ? Math.min(each, total - totalSize(present)) : 0
}

function totalSize(files: readonly NamedFile[]): number {
  return files.reduce((sum, { size }) => sum + size, 0)
}

/** The types that the server lets browsers show in place. */
export function fileKind(type: string): 'image' | 'audio' | 'other' {
  if (/^image\/(png|jpeg|gif|webp|avif)$/.test(type)) return 'image'
  return type.startsWith('audio/') ? 'audio' : 'other'
}

/** Without characters that could hide the extension: many spaces would push it out of sight. */
export function displayName(name: string, { file }: Pick<ChatTexts, 'file'>): string {
  return replaceHidden(name, '\ufffd').replace(/\s+/g, ' ').trim() || file
}

/** Such as `PDF`, or nothing for an extension that is none. */
export function extensionLabel(name: string): string {
  const [, extension = ''] = /[^.]\.([a-z0-9]{1,4})$/i.exec(displayName(name, { file: '' })) ?? []
  return extension.toUpperCase()
}

export function describeFile({ name, size }: NamedFile, texts: ChatTexts): string {
  return `${displayName(name, texts)} (${formatSize(size, texts)})`
}

export function formatSize(bytes: number, { language, kilobytes, megabytes }: ChatTexts): string {
  const count = (value: number, unit: Intl.NumberFormatOptions = {}): string =>
    value.toLocaleString(language, { maximumFractionDigits: value < 9.95 ? 1 : 0, useGrouping: false, ...unit })
  if (bytes < 1024) return count(bytes, { style: 'unit', unit: 'byte', unitDisplay: 'long' })
  if (bytes < 1024 ** 2 * 0.9995) return fill(kilobytes, { size: count(bytes / 1024) })
  return fill(megabytes, { size: count(bytes / 1024 ** 2) })
}
