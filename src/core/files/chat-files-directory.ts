// The directory with the files of a chat's messages. svc writes it, and the runs of that chat see it read-only.
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { Directory } from '../../lib/files/directory.ts'
import type { AgentUser } from '../agent-user.ts'
import { type ChatPlace, chatFilesDir, type Layout } from '../layout.ts'

/** Its path inside the cell. */
export const FILES_HOME = '/home/files'

/** Mode of a file in it: the user of the agents, who can enter only the directories of their own world, reads it. */
export const CHAT_FILE_MODE = 0o444

type FilesPlace = Pick<ChatPlace, 'folder' | 'jid'>

/** Opens the directory and creates it if it is missing. Until a run of its chat starts, only svc can enter it. */
export async function makeChatFiles(layout: Layout, place: FilesPlace): Promise<Directory> {
  const path = chatFilesDir(layout, place)
  await (await Directory.make(layout.files, 0o700, { follow: true, isDurable: true })).close()
  await (await Directory.make(dirname(path), 0o700, { isDurable: true })).close()
  const directory = await Directory.make(path, 0o700, { isDurable: true })
  // svc ran as root before, which needs no permission.
  if (!layout.agents) await directory.setMode(0o700)
  return directory
}

export function hasChatFiles(layout: Layout, place: FilesPlace): boolean {
  return existsSync(chatFilesDir(layout, place))
}

/**
 * Opens the directory for a run of `user`; undefined if the chat has no files. Its owner is that user, because those of other
 * worlds have the same group; in a cell it is mounted read-only, so that its owner cannot change it either.
 */
export async function openChatFiles(
  layout: Layout,
  place: FilesPlace,
  user: AgentUser | undefined,
): Promise<Directory | undefined> {
  const path = chatFilesDir(layout, place)
  const directory = await Directory.open(path)
  if (!directory || !layout.agents || !user) return directory
  try {
    const { uid, mode } = await directory.stat()
    if (uid === user.uid && (mode & 0o777) === 0o500) return directory
    await using parent = await Directory.open(dirname(path))
    await parent?.setMode(0o711)
    await directory.setMode(0o500)
    await directory.setOwner(user)
    return directory
  } catch (error) {
    await directory.close()
    throw error
  }
}
