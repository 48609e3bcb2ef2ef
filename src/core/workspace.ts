// Files of a folder's workspace, which every tool calls `/home/node/` (decision T12). An agent writes there, so nothing of
// what a path seems to be is believed: the file that was opened is judged, not its name.
import { constants } from 'node:fs'
import { type FileHandle, open, readlink, realpath, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { diskCode, refuseDisk } from '../lib/atomic-file.ts'
import { refuse } from '../lib/refusal.ts'
import { realHome } from './home.ts'
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

/** Opens a regular file of the workspace; whoever asked closes it. `path` is a `WorkspacePath`. */
export async function openInWorkspace(
  layout: Layout,
  folder: string,
  path: string,
  maxBytes: number = FILE_BYTES_MAX,
): Promise<FileHandle> {
  const fault = workspacePathFault(path)
  if (fault) refuse('invalid', `${path} ${fault}`)
  try {
    const home = (await realHome(layout, folder)) ?? refuse('not_found', 'you have no workspace')
    const named = join(home, path.slice(HOME.length))
    const real = await mustBeInside(home, named, path)
    // Not opened to find out: to open a device may do something.
    if (!(await stat(real)).isFile()) refuse('invalid', `${path} is not a regular file`)
    const file = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      const opened = await file.stat()
      if (!opened.isFile()) refuse('invalid', `${path} is not a regular file`)
      await mustHaveOpened(file, home, named, path)
      if (opened.size > maxBytes) refuseSize(maxBytes)
      return file
    } catch (error) {
      await file.close()
      throw error
    }
  } catch (error) {
    if (diskCode(error) === 'ELOOP') refuse('invalid', `${path} is not a regular file`)
    // Said with the name that the agent knows it by.
    return refuseDisk(error, 'read', path)
  }
}

/** Between the look and the opening somebody may have put something else there. */
async function mustHaveOpened(file: FileHandle, home: string, named: string, path: string): Promise<void> {
  // What is open has one name, which the kernel tells; no look at a path can be sure of it.
  const real = await readlink(`/proc/self/fd/${file.fd}`).catch(() => undefined)
  if (real !== undefined) return mustLieInside(home, real, path)
  const [opened, again] = [await file.stat(), await stat(await mustBeInside(home, named, path))]
  if (opened.ino !== again.ino || opened.dev !== again.dev) refuse('invalid', `${path} is not a regular file`)
}

async function mustBeInside(home: string, named: string, path: string): Promise<string> {
  const real = await realpath(named)
  mustLieInside(home, real, path)
  return real
}

export function mustLieInside(home: string, real: string, path: string): void {
  const parts = relative(home, real).split(sep)
  if (real === home || parts[0] === '..') refuse('invalid', `${path} leads out of your workspace`)
  if (isBlocked(parts)) refuse('invalid', `${path} leads to a place where keys are kept, which is never sent`)
}

function isBlocked(parts: readonly string[]): boolean {
  return parts.some((part) => BLOCKED.has(part.toLowerCase()))
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
