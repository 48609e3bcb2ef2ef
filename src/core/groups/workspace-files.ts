// Opens files that agents send: from the workspace (`/home/node/`) or the directory of a chat (`/home/chat/`). Agents can
// change these at any time, so a path is resolved once and then opened relative to a descriptor without following links.
import type { FileHandle } from 'node:fs/promises'
import { sep } from 'node:path'
import type { Directory } from '../../lib/files/directory.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { frontMatterValue } from '../../lib/text/front-matter.ts'
import { CHAT_HOME, openChatHome } from '../chats/chat-home.ts'
import { FILE_BYTES_MAX, refuseSize } from '../delivery/staged-files.ts'
import type { ChatPlace, Layout } from '../layout.ts'
import { checkedText, line } from '../values.ts'
import { openHome } from './workspace-home.ts'

const HOME = '/home/node/'
const CHAT = `${CHAT_HOME}/`
/** Directory of the workspace whose files may be sent to visitors. */
const PUBLIC_NAME = 'public'
const PUBLIC = `${HOME}${PUBLIC_NAME}/`
const PERSONA_BYTES_MAX = 65_536
/** Segments of a path and of its links. Each one opens all directories above it. */
const STEPS_MAX = 128

/** Names of files and directories that usually contain keys. */
const BLOCKED_NAMES = new Set([
  ...['.ssh', '.gnupg', '.gpg', '.aws', '.azure', '.gcloud', '.kube', '.docker', 'credentials', '.env'],
  ...['.netrc', '.npmrc', '.pypirc', 'id_rsa', 'id_ed25519', 'private_key', '.secret'],
])

/** Checks the text of a path only, not the file. */
export function workspacePathFault(path: string, bases: readonly string[] = [HOME]): string | undefined {
  const base = bases.find((each) => path.startsWith(each))
  if (base === undefined) return `must be below ${HOME}`
  const rest = path.slice(base.length)
  if (rest.replaceAll('/', '') === '') return 'must name a file'
  if (path.length > 4096) return 'is longer than 4096 characters'
  if (/[\u0000-\u001f\u007f]/.test(path)) return 'must not contain control characters'
  return isBlockedPath(rest.split('/')) ? 'is a file or directory for keys, which is never sent' : undefined
}

/** Accepts both directories; `openChatFile` and `openWorkspaceFile` check which one the turn may use. */
export const SendablePath = checkedText((path) => workspacePathFault(path, [HOME, CHAT])).describe(
  `A file of your workspace, such as ${HOME}report.pdf; in a chat with visitors one below ${CHAT} or ${PUBLIC}`,
)

/** The display name of a file. */
export const FileName = checkedText((value) => {
  if (/[/\\]/.test(value) || value === '.' || value === '..') return 'must be a file name without directories'
  const result = line(255).safeParse(value)
  return result.success ? undefined : result.error.issues[0]?.message
})

/** The caller closes the file. */
export async function openWorkspaceFile(
  layout: Layout,
  folder: string,
  path: string,
  maxBytes: number = FILE_BYTES_MAX,
): Promise<FileHandle> {
  const fault = workspacePathFault(path)
  if (fault) refuse('invalid', `${path} ${fault}`)
  await using home = (await openHome(layout, folder)) ?? refuse('not_found', 'this folder has no workspace')
  return await openBelow({ directory: home, path: HOME }, path, maxBytes)
}

/** For turns below reach `all`: from the chat's directory, or from the workspace; visitors get only its public directory. */
export async function openChatFile(layout: Layout, place: ChatPlace, path: string): Promise<FileHandle> {
  const fault = workspacePathFault(path, [HOME, CHAT])
  if (fault) refuse('invalid', `${path} ${fault}`)
  const base = [CHAT, PUBLIC].find((each) => path.startsWith(each))
  if (place.reach === 'work' && base !== CHAT) return openWorkspaceFile(layout, place.folder, path)
  if (base === undefined)
    return refuse('forbidden', `${path}: in a chat with visitors, files are sent from ${CHAT} or ${PUBLIC} only`)
  await using directory = await (base === CHAT ? openChatHome(layout, place) : openPublic(layout, place.folder))
  if (!directory) return refuseUnsendable(path)
  return await openBelow({ directory, path: base }, path, FILE_BYTES_MAX)
}

async function openPublic(layout: Layout, folder: string): Promise<Directory | undefined> {
  await using home = await openHome(layout, folder)
  return await home?.openDirectory(PUBLIC_NAME)
}

/** An open directory and its path as agents see it. */
interface Base {
  readonly directory: Directory
  readonly path: string
}

async function openBelow(base: Base, path: string, maxBytes: number): Promise<FileHandle> {
  const segments = await resolvePath(base, path)
  const file = await openResolved(base.directory, segments, path)
  try {
    if ((await file.stat()).size > maxBytes) refuseSize(maxBytes)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/**
 * The path relative to the directory, with links resolved. Looks at nothing outside of it, so that neither the refusal nor
 * the time tells whether a path exists there.
 */
async function resolvePath({ directory, path: base }: Base, path: string): Promise<string[]> {
  const insides = [base, `${await directory.realPath()}${sep}`]
  const resolved: string[] = []
  // Reversed, so that taking a segment or adding those of a link does not move the others.
  const left = path.slice(base.length).split('/').reverse()
  for (let steps = 0; left.length > 0; steps++) {
    if (steps > STEPS_MAX) refuseUnsendable(path)
    const segment = left.pop() ?? ''
    if (segment === '' || segment === '.') continue
    if (segment === '..') {
      if (resolved.pop() === undefined) refuseUnsendable(path)
      continue
    }
    const link = await readLinkBelow(directory, resolved, segment, path)
    if (link === undefined) {
      resolved.push(segment)
      continue
    }
    const inside = insides.find((each) => link.startsWith(each))
    if (link.startsWith('/') && inside === undefined) refuseUnsendable(path)
    if (inside !== undefined) resolved.length = 0
    left.push(
      ...link
        .slice(inside?.length ?? 0)
        .split('/')
        .reverse(),
    )
  }
  if (resolved.length === 0 || isBlockedPath(resolved)) refuseUnsendable(path)
  return resolved
}

async function readLinkBelow(
  directory: Directory,
  above: readonly string[],
  name: string,
  path: string,
): Promise<string | undefined> {
  try {
    await using parent = await directory.openPath(above.join('/'))
    if (!parent) return refuseUnsendable(path)
    return await parent.readLink(name)
  } catch (error) {
    return refuseUnsendableOr(error, path)
  }
}

async function openResolved(home: Directory, segments: readonly string[], path: string): Promise<FileHandle> {
  try {
    await using directory = await home.openPath(segments.slice(0, -1).join('/'))
    return (await directory?.openFile(segments.at(-1) ?? '')) ?? refuseUnsendable(path)
  } catch (error) {
    // The original message contains a host path.
    if (error instanceof Refusal && error.code === 'invalid') refuse('invalid', `${path} is not a regular file`)
    return refuseUnsendableOr(error, path)
  }
}

/** The same words for a path that is missing, that may not be read and that leads elsewhere. */
function refuseUnsendable(path: string): never {
  return refuse('not_found', `${path} does not exist, or is not a file that you can send`)
}

function refuseUnsendableOr(error: unknown, path: string): never {
  if (!(error instanceof Refusal)) throw error
  return error.code === 'unavailable' ? refuse('unavailable', `cannot read ${path}`) : refuseUnsendable(path)
}

export function isBlockedPath(segments: readonly string[]): boolean {
  return segments.some((segment) => BLOCKED_NAMES.has(segment.toLowerCase()))
}

/** `voice` in the front matter of the folder's PERSONA.md. */
export async function personaVoice(layout: Layout, folder: string): Promise<string | undefined> {
  let persona: string
  try {
    await using file = await openWorkspaceFile(layout, folder, `${HOME}PERSONA.md`, PERSONA_BYTES_MAX)
    persona = await file.readFile('utf8')
  } catch {
    return undefined
  }
  return parseVoice(persona)
}

/** Parses a line `voice: name`, with or without quotes. */
export function parseVoice(persona: string): string | undefined {
  const { text, isQuoted } = frontMatterValue(persona, 'voice')
  const voice = isQuoted ? text : (text.split(/\s#/, 1)[0] ?? '').trimEnd()
  return line(64).safeParse(voice).success ? voice : undefined
}
