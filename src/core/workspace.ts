// Files of a folder's workspace, which every tool calls `/home/node/` (decision T12), and of the directory of a visitors' chat,
// `/home/chat/`. An agent writes there, so a path is resolved once, and then opened below the descriptor of the workspace or
// the directory without following any link.
import type { FileHandle } from 'node:fs/promises'
import { relative, sep } from 'node:path'
import { diskCode, refuseDisk } from '../lib/atomic-file.ts'
import type { Directory } from '../lib/directory.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { CHAT_HOME, openChatHome } from './chat-home.ts'
import { openHome } from './home.ts'
import type { Layout } from './layout.ts'
import { splitFrontMatter } from './products.ts'
import { FILE_BYTES_MAX, refuseSize } from './staging.ts'
import { line, text } from './values.ts'

const HOME = '/home/node/'
const CHAT = `${CHAT_HOME}/`
/** What the agent publishes in its workspace, visitors may be sent. */
const PUBLIC_NAME = 'public'
const PUBLIC = `${HOME}${PUBLIC_NAME}/`
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
export function workspacePathFault(path: string, bases: readonly string[] = [HOME]): string | undefined {
  const base = bases.find((each) => path.startsWith(each))
  if (base === undefined) return `must be below ${HOME}`
  const rest = path.slice(base.length)
  if (rest.replaceAll('/', '') === '') return 'must name a file'
  if (path.length > 4096) return 'is longer than 4096 characters'
  if (/[\u0000-\u001f\u007f]/.test(path)) return 'must not hold control characters'
  return isBlocked(rest.split('/')) ? 'names a place where keys are kept, which is never sent' : undefined
}

/** Of a file to send: which of the two it may be is known when the turn is. */
export const SentPath = text((path) => workspacePathFault(path, [HOME, CHAT])).describe(
  `A file of your workspace, such as ${HOME}report.pdf; in a chat with visitors one below ${CHAT} or ${PUBLIC}`,
)

/** The name that a file is shown under. */
export const FileName = text((value) => {
  if (/[/\\]/.test(value) || value === '.' || value === '..') return 'must be a name without folders'
  const result = line(255).safeParse(value)
  return result.success ? undefined : result.error.issues[0]?.message
})

/** Opens a regular file of the workspace; the caller closes it. */
export async function openInWorkspace(
  layout: Layout,
  folder: string,
  path: string,
  maxBytes: number = FILE_BYTES_MAX,
): Promise<FileHandle> {
  const fault = workspacePathFault(path)
  if (fault) refuse('invalid', `${path} ${fault}`)
  await using home = (await openHome(layout, folder)) ?? refuse('not_found', 'you have no workspace')
  return await openBelow({ directory: home, at: HOME }, path, maxBytes)
}

/** The same for a turn of reach `chat`: from the directory of its chat, or from what the folder publishes. */
export async function openForVisitors(
  layout: Layout,
  { folder, jid }: { readonly folder: string; readonly jid: string },
  path: string,
): Promise<FileHandle> {
  const fault = workspacePathFault(path, [HOME, CHAT])
  if (fault) refuse('invalid', `${path} ${fault}`)
  const at = [CHAT, PUBLIC].find((base) => path.startsWith(base))
  if (at === undefined)
    return refuse('forbidden', `${path}: in a chat with visitors, files are sent from ${CHAT} or ${PUBLIC} only`)
  await using directory = await (at === CHAT ? openChatHome(layout, folder, jid) : openPublic(layout, folder))
  if (!directory) return refuse('not_found', `cannot read ${path}: it does not exist`)
  return await openBelow({ directory, at }, path, FILE_BYTES_MAX)
}

async function openPublic(layout: Layout, folder: string): Promise<Directory | undefined> {
  await using home = await openHome(layout, folder)
  return await home?.openDirectory(PUBLIC_NAME)
}

/** An open directory, and what agents call it. */
interface Base {
  readonly directory: Directory
  readonly at: string
}

async function openBelow(base: Base, path: string, maxBytes: number): Promise<FileHandle> {
  const segments = await resolve(base, path)
  const file = await openResolved(base.directory, segments, path)
  try {
    if ((await file.stat()).size > maxBytes) refuseSize(maxBytes)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Where the path leads within the directory, without links. */
async function resolve({ directory, at }: Base, path: string): Promise<string[]> {
  try {
    const real = await directory.realPathOf(path.slice(at.length))
    return segmentsInside(await directory.realPath(), real, path, at === HOME ? 'your workspace' : at)
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
export function segmentsInside(home: string, real: string, path: string, name = 'your workspace'): string[] {
  const segments = relative(home, real).split(sep)
  if (real === home || segments[0] === '..') refuse('invalid', `${path} leads out of ${name}`)
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
