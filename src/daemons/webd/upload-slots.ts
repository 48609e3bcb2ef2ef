// Limits of posts with files: how many are received at once, and how large they are.
import { statfs } from 'node:fs/promises'
import { noSpace } from '../../core/files/chat-file-writer.ts'
import { FILES_BYTES_MAX, FILES_MAX } from '../../core/files/chat-files.ts'
import { RetryLaterRefusal } from '../../lib/refusal.ts'
import type { FileLimits } from '../../web/chat/page.ts'

const UPLOADS_MAX = 32
/** A link may be shared by many visitors, and several links share the machine. */
const UPLOADS_PER_LINK = 8
const RETRY_S = 5
/** Files must leave this much of the disk to the store. */
const FREE_BYTES_MIN = 512 * 1024 * 1024

export function fileLimits(bytes: number): FileLimits {
  return { bytes, count: FILES_MAX, totalBytes: FILES_BYTES_MAX }
}

export class UploadSlots {
  readonly #byLink = new Map<string, number>()
  #used = 0

  /** Refuses if too many uploads are being received. Returns a function to call at the end. */
  take(link: string): () => void {
    const ofLink = this.#byLink.get(link) ?? 0
    if (ofLink >= UPLOADS_PER_LINK || this.#used >= UPLOADS_MAX)
      throw new RetryLaterRefusal('too many files are being received', RETRY_S)
    this.#used++
    this.#byLink.set(link, ofLink + 1)
    return () => {
      this.#used--
      const left = (this.#byLink.get(link) ?? 1) - 1
      if (left > 0) this.#byLink.set(link, left)
      else this.#byLink.delete(link)
    }
  }
}

/** Refuses files that would fill the disk. */
export async function mustHaveRoomOnDisk(path: string, bytes: number): Promise<void> {
  const disk = await statfs(path).catch(() => undefined)
  if (disk && disk.bavail * disk.bsize < bytes + FREE_BYTES_MIN) throw noSpace()
}
