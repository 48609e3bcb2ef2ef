// The files that a folder publishes under /pub/<folder>/ and /priv/<folder>/.
import { z } from 'zod'
import { Directory, kindOfEntry } from '../../lib/files/directory.ts'
import type { Layout } from '../layout.ts'

export const PageFile = z.object({
  path: z.string().describe('URL path'),
  bytes: z.int(),
  modified_at: z.string(),
})
export type PageFile = z.output<typeof PageFile>

const FILES_MAX = 500
const DEPTH_MAX = 12

export interface PublishedFiles {
  readonly files: readonly PageFile[]
  /** Whether there are more than could be listed. */
  readonly isCut: boolean
}

export async function listPublishedFiles(layout: Layout, folder: string): Promise<PublishedFiles> {
  const files: PageFile[] = []
  let isCut = false
  const walk = async (directory: Directory, path: string, depthLeft: number): Promise<void> => {
    const entries = (await directory.entries()).sort((a, b) => (a.name < b.name ? -1 : 1))
    for (const entry of entries) {
      if (files.length >= FILES_MAX || depthLeft === 0) {
        isCut = true
        return
      }
      const kind = kindOfEntry(entry)
      if (kind === 'directory') {
        await using inner = await directory.openDirectory(entry.name)
        if (inner) await walk(inner, `${path}/${encodeURIComponent(entry.name)}`, depthLeft - 1)
      } else if (kind === 'file') {
        await using file = await directory.openFile(entry.name)
        if (!file) continue
        const { size, mtime } = await file.stat()
        files.push({
          path: `${path}/${encodeURIComponent(entry.name)}`,
          bytes: size,
          modified_at: mtime.toISOString(),
        })
      }
    }
  }
  for (const [root, slot] of [
    [layout.webPub, 'pub'],
    [layout.webPriv, 'priv'],
  ] as const) {
    await using pages = await Directory.open(root, { follow: true })
    await using own = await pages?.openPath(folder)
    if (own) await walk(own, `/${slot}/${folder}`, DEPTH_MAX)
  }
  return { files, isCut }
}
