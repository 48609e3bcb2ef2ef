// Files of a workspace that people edit at the dashboard: persona, instructions and memory of the agent. The agent may change
// them at any time, so a save names the version that it replaces.
import { basename, dirname } from 'node:path'
import { timestamp } from '../../lib/clock.ts'
import type { Directory } from '../../lib/files/directory.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Layout } from '../layout.ts'
import {
  AGENT_FILE_MAX_BYTES,
  AGENT_FILE_NAMES,
  AGENT_FILES,
  type AgentFile,
  type AgentFileEntry,
  type AgentFileName,
  MISSING_FILE,
} from './agent-file.ts'
import { contentHash } from './package-skills.ts'
import { openHome, withAgentPaths } from './workspace-home.ts'

export async function listAgentFiles(layout: Layout, folder: string): Promise<AgentFileEntry[]> {
  await using home = await openHome(layout, folder)
  const entries = []
  for (const name of AGENT_FILE_NAMES)
    entries.push({ name, about: AGENT_FILES[name], ...(home ? await describe(home, name) : {}) })
  return entries
}

async function describe(home: Directory, path: AgentFileName): Promise<Partial<AgentFileEntry>> {
  try {
    return await withAgentPaths(home, async () => {
      await using parent = await openParent(home, path)
      await using file = await parent?.openFile(basename(path))
      if (!file) return {}
      const { size: bytes, mtimeMs } = await file.stat()
      const isTooLarge = bytes > AGENT_FILE_MAX_BYTES
      const fault = isTooLarge ? { fault: `it is larger than ${AGENT_FILE_MAX_BYTES} bytes` } : {}
      return { bytes, modified_at: timestamp(mtimeMs), ...fault }
    })
  } catch (error) {
    if (error instanceof Refusal) return { fault: error.message }
    throw error
  }
}

/** A file that does not exist has no content. */
export async function readAgentFile(layout: Layout, folder: string, name: AgentFileName): Promise<AgentFile> {
  await using home = await openHome(layout, folder)
  const data = home && (await withAgentPaths(home, () => readBytes(home, name)))
  return { name, content: data ? decode(data, name) : '', version: versionOf(data), exists: data !== undefined }
}

export interface AgentFileChange {
  readonly name: AgentFileName
  readonly content: string
  /** The version that the new content replaces. */
  readonly version: string
}

/** Returns the new version. Refuses to replace another version than the named one. */
export async function writeAgentFile(
  layout: Layout,
  folder: string,
  { name, content, version }: AgentFileChange,
): Promise<string> {
  await using home = (await openHome(layout, folder)) ?? refuse('not_found', `${folder} has no workspace`)
  return await oneAtATime(`${layout.groups} ${folder} ${name}`, () =>
    withAgentPaths(home, async () => {
      // A form that is sent twice succeeds twice.
      if (versionOf(await readBytes(home, name)) === contentHash(content)) return contentHash(content)
      const check = async (): Promise<void> => {
        if (versionOf(await readBytes(home, name)) !== version) refuseOtherVersion(name)
      }
      await check()
      await using parent = await home.makePath(dirname(name))
      const file = basename(name)
      if (version === MISSING_FILE) {
        // Fails if the agent creates the file meanwhile.
        if (!(await parent.createWholeFile(file, content, 0o644))) refuseOtherVersion(name)
      } else await parent.replaceFile(file, content, await modeOf(parent, file), check)
      return contentHash(content)
    }),
  )
}

function refuseOtherVersion(name: string): never {
  refuse('conflict', `${name} was changed meanwhile`, 'compare your text with the file as it is now, then save again')
}

async function modeOf(parent: Directory, name: string): Promise<number> {
  await using file = await parent.openFile(name)
  return ((await file?.stat())?.mode ?? 0o644) & 0o777
}

async function readBytes(home: Directory, path: AgentFileName): Promise<Buffer | undefined> {
  await using parent = await openParent(home, path)
  return (await parent?.readFile(basename(path), AGENT_FILE_MAX_BYTES))?.data
}

/** The directory of a path; undefined if there is none. Refuses a link in its place. */
async function openParent(home: Directory, path: string): Promise<Directory | undefined> {
  const name = dirname(path)
  const parent = await home.openPath(name)
  if (parent) return parent
  await using above = await openParent(home, name)
  if (above && (await above.kindOf(basename(name))) !== undefined)
    refuse('conflict', `cannot open ${home.path}/${name}: it is a symbolic link or not a directory`)
  return undefined
}

function versionOf(data: Uint8Array | undefined): string {
  return data === undefined ? MISSING_FILE : contentHash(data)
}

function decode(data: Uint8Array, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data)
  } catch {
    return refuse('invalid', `${name} is not UTF-8 text`)
  }
}

const queues = new Map<string, Promise<unknown>>()

/** Saves of one file wait for each other: two that replace the same version must not both succeed. */
async function oneAtATime<T>(key: string, work: () => Promise<T>): Promise<T> {
  const running = (queues.get(key) ?? Promise.resolve()).then(work, work)
  queues.set(key, running)
  try {
    return await running
  } finally {
    if (queues.get(key) === running) queues.delete(key)
  }
}
