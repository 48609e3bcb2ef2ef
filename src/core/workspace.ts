// Files of a folder's workspace, which every tool calls `/home/node/` (decision T12). An agent writes there, so a path is
// resolved once, and then opened below the workspace's descriptor without following any link.
import type { FileHandle } from 'node:fs/promises'
import { relative, sep } from 'node:path'
import { diskCode, refuseDisk } from '../lib/atomic-file.ts'
import type { Directory } from '../lib/directory.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { openHome } from './home.ts'
import type { Layout } from './layout.ts'
import { splitFrontMatter } from './products.ts'
import { FILE_BYTES_MAX, refuseSize } from './staging.ts'
import { line, text } from './values.ts'

const HOME = '/home/node/'
const PERSONA_BYTES_MAX = 65_536

/** Files and folders that hold keys, wherever they lie. */
const BLOCKED = new Set([
  '.ssh',
  '.gnupg',
  '.gpg',
  '.aws',
  '.azure',
  '.gcloud',
  '.kube',
  '.docker',
  'credentials',
  '.env',
  '.netrc',
  '.npmrc',
  '.pypirc',
  'id_rsa',
  'id_ed25519',
  'private_key',
  '.secret',
])

/** Why a text is no path of a file in the workspace, by its letters alone; or nothing. */
export function workspacePathFault(path: string): string | undefined {
  if (!path.startsWith(HOME)) return `must be below ${HOME}`
  const rest = path.slice(HOME.length)
  if (rest.replaceAll('/', '') === '') return 'must name a file'
  if (path.length > 4096) return 'is longer than 4096 characters'
  if (/[\u0000-\u001f\u007f]/.test(path)) return 'must not hold control characters'
  return isBlocked(rest.split('/')) ? 'names a place where keys are kept, which is never sent' : undefined
}

export const WorkspacePath = text(workspacePathFault).describe(`A file of your workspace, such as ${HOME}report.pdf`)

/** The name that a file is shown under. */
export const FileName = text((value) => {
  if (/[/\\]/.test(value) || value === '.' || value === '..') return 'must be a name without folders'
  const result = line(255).safeParse(value)
  return result.success ? undefined : result.error.issues[0]?.message
})

/** Opens a regular file of the workspace; the caller closes it. `path` is a `WorkspacePath`. */
export async function openInWorkspace(
  layout: Layout,
  folder: string,
  path: string,
  maxBytes: number = FILE_BYTES_MAX,
): Promise<FileHandle> {
  const fault = workspacePathFault(path)
  if (fault) refuse('invalid', `${path} ${fault}`)
  await using home = (await openHome(layout, folder)) ?? refuse('not_found', 'you have no workspace')
  const segments = await resolve(home, path)
  const file = await openResolved(home, segments, path)
  try {
    if ((await file.stat()).size > maxBytes) refuseSize(maxBytes)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Where the path leads within the workspace, without links. */
async function resolve(home: Directory, path: string): Promise<string[]> {
  try {
    return segmentsInside(await home.realPath(), await home.realPathOf(path.slice(HOME.length)), path)
  } catch (error) {
    if (diskCode(error) === 'ELOOP') refuse('invalid', `${path} is not a regular file`)
    // Named as the agent knows it.
    return refuseDisk(error, 'read', path)
  }
}

async function openResolved(home: Directory, segments: readonly string[], path: string): Promise<FileHandle> {
  try {
    await using directory = await home.openPath(segments.slice(0, -1).join('/'))
    const file = await directory?.openFile(segments.at(-1) ?? '')
    return file ?? refuse('not_found', `cannot read ${path}: it does not exist`)
  } catch (error) {
    // The message names a path of the host.
    if (error instanceof Refusal && error.code === 'invalid') refuse('invalid', `${path} is not a regular file`)
    if (error instanceof Refusal && error.code !== 'not_found') refuse(error.code, `cannot read ${path}`)
    throw error
  }
}

/** The segments of `real` below `home`. Refused where it leads out, or to a place where keys are kept. */
export function segmentsInside(home: string, real: string, path: string): string[] {
  const segments = relative(home, real).split(sep)
  if (real === home || segments[0] === '..') refuse('invalid', `${path} leads out of your workspace`)
  if (isBlocked(segments)) refuse('invalid', `${path} leads to a place where keys are kept, which is never sent`)
  return segments
}

export function isBlocked(segments: readonly string[]): boolean {
  return segments.some((segment) => BLOCKED.has(segment.toLowerCase()))
}

/** `voice` of the front matter of the folder's PERSONA.md; nothing where that has none, or is no such file. */
export async function personaVoice(layout: Layout, folder: string): Promise<string | undefined> {
  let persona: string
  try {
    await using file = await openInWorkspace(layout, folder, `${HOME}PERSONA.md`, PERSONA_BYTES_MAX)
    persona = await file.readFile('utf8')
  } catch {
    return undefined
  }
  return voiceOf(persona)
}

/** One line `voice: name`, with or without quotes. */
export function voiceOf(persona: string): string | undefined {
  const { matter = '' } = splitFrontMatter(persona)
  const [, value = ''] = /^voice:[ \t]*(.*?)[ \t\r]*$/m.exec(matter) ?? []
  const voice = /^(["'])(.*)\1$/.exec(value)?.[2] ?? value.replace(/\s+#.*$/, '')
  return line(64).safeParse(voice).success ? voice : undefined
}
