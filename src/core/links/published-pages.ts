// The files that a folder publishes under /pub/<folder>/, for everyone, and under /priv/<folder>/, for people who may talk to it.
import { basename, dirname } from 'node:path'
import { z } from 'zod'
import { Directory, kindOfEntry } from '../../lib/files/directory.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Layout } from '../layout.ts'
import { base64Bytes, checkedText } from '../values.ts'

export const PageSlot = z.enum(['pub', 'priv'])
export type PageSlot = z.output<typeof PageSlot>

const DEPTH_MAX = 12
const NAME_MAX = 500
const PART_MAX_BYTES = 255

/** A path below the directory of the folder, such as docs/index.html. The front door shows no other names. */
export const PageName = checkedText(
  (value) => {
    const parts = value.split('/')
    if (value === '') return 'must not be empty'
    if (value.length > NAME_MAX) return `is longer than ${NAME_MAX} characters`
    if (/[\p{Cc}\\]/u.test(value) || !value.isWellFormed()) return 'must not contain control characters or "\\"'
    if (parts.includes('')) return 'must be names with one "/" between them'
    if (parts.some((part) => part.startsWith('.'))) return 'must not have a part that begins with "."'
    if (parts.some((part) => Buffer.byteLength(part) > PART_MAX_BYTES))
      return `must not have a part of more than ${PART_MAX_BYTES} bytes`
    return parts.length > DEPTH_MAX ? `must have at most ${DEPTH_MAX} parts` : undefined
  },
  { minLength: 1, maxLength: NAME_MAX },
)

export const PAGE_FILE_MAX_BYTES = 8 * 1024 * 1024

export const PageBytes = base64Bytes(PAGE_FILE_MAX_BYTES)

export const PageFile = z.object({
  slot: PageSlot,
  name: z.string(),
  path: z.string().describe('URL path'),
  bytes: z.int(),
  modified_at: z.string(),
})
export type PageFile = z.output<typeof PageFile>

export const PAGE_FILES_MAX = 500
export const PAGE_FILES_MAX_BYTES = 256 * 1024 * 1024

/** The pages of a folder. Directories of folders below it are not part of them. */
export interface PagesOwner {
  readonly folder: string
  /** Names of these directories. */
  readonly below: ReadonlySet<string>
}

export interface PublishedFiles {
  readonly files: readonly PageFile[]
  /** Whether there are more than could be listed. */
  readonly isCut: boolean
}

function rootOf({ webPub, webPriv }: Layout, slot: PageSlot): string {
  return slot === 'pub' ? webPub : webPriv
}

export async function listPublishedFiles(layout: Layout, { folder, below }: PagesOwner): Promise<PublishedFiles> {
  const files: PageFile[] = []
  let isCut = false
  const walk = async (directory: Directory, slot: PageSlot, parents: readonly string[]): Promise<void> => {
    for (const entry of await directory.entries()) {
      const parts = [...parents, entry.name]
      if (entry.name.startsWith('.') || below.has(parts[0] ?? '')) continue
      if (files.length >= PAGE_FILES_MAX || parts.length > DEPTH_MAX) {
        isCut = true
        return
      }
      const kind = kindOfEntry(entry)
      if (kind === 'directory') {
        await using inner = await directory.openDirectory(entry.name)
        if (inner) await walk(inner, slot, parts)
      } else if (kind === 'file') {
        await using file = await directory.openFile(entry.name)
        if (!file) continue
        const { size, mtime } = await file.stat()
        const name = parts.join('/')
        files.push({ slot, name, path: pagePath(folder, slot, name), bytes: size, modified_at: mtime.toISOString() })
      }
    }
  }
  for (const slot of PageSlot.options) {
    await using own = await openPages(layout, folder, slot)
    if (own) await walk(own, slot, [])
  }
  return { files, isCut }
}

/** The URL path of a published file. */
export function pagePath(folder: string, slot: PageSlot, name: string): string {
  return `/${slot}/${folder}/${name.split('/').map(encodeURIComponent).join('/')}`
}

export interface PageChange {
  readonly slot: PageSlot
  readonly name: string
}

/** Creates or replaces a file. Returns whether it is new. */
export async function publishFile(
  layout: Layout,
  owner: PagesOwner,
  { slot, name, data }: PageChange & { readonly data: Uint8Array },
): Promise<boolean> {
  const { folder } = owner
  mustBeOwn(owner, name)
  await mustHaveRoom(layout, owner, { slot, name, bytes: data.byteLength })
  const mode = slot === 'pub' ? 0o755 : 0o700
  await using pages = await Directory.make(rootOf(layout, slot), mode, { follow: true })
  await using own = await pages.makePath(folder)
  await using parent = await makeParent(own, name)
  const kind = await parent.kindOf(basename(name))
  if (kind !== undefined && kind !== 'file') refuse('conflict', `${name} is a directory or a link`)
  await parent.replaceFile(basename(name), data, 0o644)
  return kind === undefined
}

function mustBeOwn({ folder, below }: PagesOwner, name: string): void {
  const [top = ''] = name.split('/')
  if (below.has(top))
    refuse('conflict', `${top} is a folder below ${folder}`, `publish it in ${folder}/${top}, or under another name`)
}

async function mustHaveRoom(
  layout: Layout,
  owner: PagesOwner,
  { slot, name, bytes }: PageChange & { readonly bytes: number },
): Promise<void> {
  const { folder } = owner
  const { files, isCut } = await listPublishedFiles(layout, owner)
  const others = files.filter((file) => file.slot !== slot || file.name !== name)
  if (isCut || others.length >= PAGE_FILES_MAX)
    refuse('storage_full', `${folder} publishes ${PAGE_FILES_MAX} files already`, 'delete some of them first')
  if (others.reduce((sum, file) => sum + file.bytes, bytes) > PAGE_FILES_MAX_BYTES)
    refuse(
      'storage_full',
      `the published files of ${folder} would have more than ${PAGE_FILES_MAX_BYTES} bytes`,
      'delete some of them first',
    )
}

async function makeParent(own: Directory, name: string): Promise<Directory> {
  try {
    return await own.makePath(dirname(name))
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'conflict') throw error
    return refuse('conflict', `a part of ${dirname(name)} is a file or a link, not a directory`)
  }
}

/** Removes a file, and the directories that are empty without it. */
export async function unpublishFile(layout: Layout, owner: PagesOwner, { slot, name }: PageChange): Promise<void> {
  const { folder } = owner
  mustBeOwn(owner, name)
  await using own = await openPages(layout, folder, slot)
  await using parent = await own?.openPath(dirname(name))
  if (!own || !parent || (await parent.kindOf(basename(name))) !== 'file')
    refuse('not_found', `${folder} publishes no file ${name}`)
  await parent.removeFile(basename(name))
  for (let at = dirname(name); at !== '.'; at = dirname(at)) {
    await using above = await own.openPath(dirname(at))
    await using left = await own.openPath(at)
    if (!above || !left || (await left.entries()).length > 0) return
    await above.removeDirectory(basename(at))
  }
}

async function openPages(layout: Layout, folder: string, slot: PageSlot): Promise<Directory | undefined> {
  await using pages = await Directory.open(rootOf(layout, slot), { follow: true })
  return await pages?.openPath(folder)
}
