// Limits of posts with files: how many are received at once, and how large they are.
import { statfs } from 'node:fs/promises'
import { noSpace } from '../../core/files/chat-file-writer.ts'
import { FILES_BYTES_MAX, FILES_MAX } from '../../core/files/chat-files.ts'
import type { Layout } from '../../core/layout.ts'
import { RetryLaterRefusal } from '../../lib/refusal.ts'
import type { FileLimits } from '../../web/chat/page.ts'
import { findReplaceable } from './fair-share.ts'

const UPLOADS_MAX = 32
/** A link may be shared by many visitors, and several links share the machine. */
const UPLOADS_PER_LINK = 8
const RETRY_S = 5
/** Files must leave this much of the disk to the store. */
const FREE_BYTES_MIN = 512 * 1024 * 1024

export function fileLimits(bytes: number): FileLimits {
  return { bytes, count: FILES_MAX, totalBytes: FILES_BYTES_MAX }
}

interface OpenUpload {
  readonly link: string
  /** Of the client (`clientNetwork`). */
  readonly network: string
  /** Bytes of files that are still to come, as far as it is known. */
  left: number
  abort(): void
}

export class UploadSlots {
  /** Oldest first. */
  readonly #open = new Set<OpenUpload>()

  /** Refuses an upload if there are too many. One of a network with many others is aborted for one of a network with fewer. */
  add(upload: OpenUpload): void {
    const ofLink = [...this.#open].filter(({ link }) => link === upload.link)
    const crowd = ofLink.length >= UPLOADS_PER_LINK ? ofLink : this.#open.size >= UPLOADS_MAX ? this.#open : undefined
    const replaced = crowd && findReplaceable(crowd, upload.network)
    if (crowd && !replaced) throw new RetryLaterRefusal('too many files are being received', RETRY_S)
    this.#open.add(upload)
    if (!replaced) return
    this.#open.delete(replaced)
    replaced.abort()
  }

  remove(upload: OpenUpload): void {
    this.#open.delete(upload)
  }

  /** Refuses the files of the open uploads if they could fill the disk. */
  async mustHaveRoomOnDisk({ files, root }: Pick<Layout, 'files' | 'root'>): Promise<void> {
    // The directory of files may be on another disk, or missing before the first one.
    const disk = await statfs(files)
      .catch(() => statfs(root))
      .catch(() => undefined)
    let bytes = FREE_BYTES_MIN
    for (const { left } of this.#open) bytes += Math.max(0, left)
    if (disk && disk.bavail * disk.bsize < bytes) throw noSpace()
  }
}
