// Names, types and sizes of files as visitors see them, and the limits of the files of a message.
import { HIDDEN_CHARACTERS } from '../../lib/text/hidden-characters.ts'

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

/** The files that may be added to those of the message, and a sentence for each limit that keeps others out. */
export function admitFiles<F extends NamedFile>(
  present: readonly NamedFile[],
  incoming: readonly F[],
  limits: AttachmentLimits,
): { readonly admitted: F[]; readonly problems: string[] } {
  const admitted: F[] = []
  const problems = new Set<string>()
  let [count, total] = [present.length, present.reduce((sum, { size }) => sum + size, 0)]
  for (const file of incoming) {
    if (file.size > limits.each)
      problems.add(`${displayName(file.name)} has more than ${formatSize(limits.each)}, the most for one file.`)
    else if (count >= limits.count) problems.add(`A message may have at most ${limits.count} files.`)
    else if (total + file.size > limits.total)
      problems.add(`The files of a message may have at most ${formatSize(limits.total)} together.`)
    else {
      admitted.push(file)
      count++
      total += file.size
    }
  }
  return { admitted, problems: [...problems] }
}

/** The types that the server lets browsers show in place. */
export function fileKind(type: string): 'image' | 'audio' | 'other' {
  if (/^image\/(png|jpeg|gif|webp|avif)$/.test(type)) return 'image'
  return type.startsWith('audio/') ? 'audio' : 'other'
}

/** Without characters that could hide the extension: many spaces would push it out of sight. */
export function displayName(name: string): string {
  return name.replace(HIDDEN_CHARACTERS, '\ufffd').replace(/\s+/g, ' ').trim() || 'file'
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
