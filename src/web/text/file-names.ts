// Names, types and sizes of files as visitors see them, and the limits of the files of a message.
import { replaceHidden } from '../../lib/text/hidden-characters.ts'

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
): { readonly admitted: F[]; readonly problems: string[] } {
  const admitted: F[] = []
  const refused = new Map<string, NamedFile[]>()
  for (const file of incoming) {
    const limit = limitAgainst(file, [...present, ...admitted], limits)
    if (limit === undefined) admitted.push(file)
    else
      refused
        .set(limit, refused.get(limit) ?? [])
        .get(limit)
        ?.push(file)
  }
  const problems = [...refused].map(([limit, files]) => `Not added: ${listNames(files)}. ${limit}.`)
  return { admitted, problems }
}

function limitAgainst(
  { size }: NamedFile,
  present: readonly NamedFile[],
  { each, count, total }: AttachmentLimits,
): string | undefined {
  if (size > each) return `A file may have at most ${formatSize(each)}`
  if (present.length >= count) return `A message may have at most ${count} files`
  return size + totalSize(present) > total
    ? `The files of a message may have at most ${formatSize(total)} together`
    : undefined
}

/** Each name is isolated from the direction of the sentence, which begins in English, because browsers look at its first letter. */
function listNames(files: readonly NamedFile[]): string {
  const names = files.slice(0, NAMES_MAX).map(({ name }) => `\u2068${displayName(name)}\u2069`)
  const more = files.length - names.length
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ')
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
export function displayName(name: string): string {
  return replaceHidden(name, '\ufffd').replace(/\s+/g, ' ').trim() || 'file'
}

/** Such as `PDF`, or nothing for an extension that is none. */
export function extensionLabel(name: string): string {
  const [, extension = ''] = /[^.]\.([a-z0-9]{1,4})$/i.exec(displayName(name)) ?? []
  return extension.toUpperCase()
}

export function describeFile({ name, size }: NamedFile): string {
  return `${displayName(name)} (${formatSize(size)})`
}

export function formatSize(bytes: number): string {
  if (bytes < 1024) return bytes === 1 ? '1 byte' : `${bytes} bytes`
  const [value, unit] = bytes < 1024 ** 2 * 0.9995 ? [bytes / 1024, 'KB'] : [bytes / 1024 ** 2, 'MB']
  return `${value < 9.95 ? Number(value.toFixed(1)) : Math.round(value)} ${unit}`
}
