// Home directory of a chat for runs below reach `all`: session files, scratch files and files from visitors. It is outside
// the workspace, so these runs cannot change files that other runs of the folder read.
import { basename, dirname } from 'node:path'
import { Directory } from '../../lib/files/directory.ts'
import { chownTree, removeTree } from '../../lib/files/directory-tree.ts'
import { openWorld } from '../groups/workspace-home.ts'
import { type ChatPlace, chatDir, chatFilesDir, type Layout } from '../layout.ts'

/** Its path inside the cell, and the HOME of such a run. */
export const CHAT_HOME = '/home/chat'

/** Opens the directory and creates it if it is missing. It has the owner of the folder's workspace. */
export async function makeChatHome(layout: Layout, place: ChatPlace): Promise<Directory> {
  const path = chatDir(layout, place)
  await (await Directory.make(layout.chats, 0o700, { follow: true })).close()
  // Agents may enter the directory of their folder, but neither list it nor write to it.
  await using parent = await Directory.make(dirname(path), 0o700)
  if (!layout.agents) return Directory.make(path, 0o700)
  await parent.setMode(0o711)
  await using world = await openWorld(layout, place.folder)
  const owner = await world?.stat()
  const home = await Directory.make(path, 0o700, { owner })
  try {
    const from = (await home.stat()).uid
    // The user of agents has changed.
    if (owner && from !== owner.uid) await chownTree(home, { owner, mayCopy: ({ uid }) => uid !== 0 && uid === from })
    return home
  } catch (error) {
    await home.close()
    throw error
  }
}

/** Removes the directories of a chat that has no messages any more. */
export async function removeChatDirectories(layout: Layout, chat: Omit<ChatPlace, 'reach'>): Promise<void> {
  for (const reach of ['chat', 'work'] as const) {
    const path = chatDir(layout, { ...chat, reach })
    await using parent = await Directory.open(dirname(path))
    if (parent) await removeTree(parent, basename(path))
  }
  const files = chatFilesDir(layout, chat)
  await using parent = await Directory.open(dirname(files))
  // It is not empty if a file has just arrived.
  if (parent && (await isEmpty(parent, basename(files)))) await parent.removeDirectory(basename(files))
}

async function isEmpty(parent: Directory, name: string): Promise<boolean> {
  await using directory = await parent.openDirectory(name)
  return directory !== undefined && (await directory.entries()).length === 0
}

/** Undefined if it does not exist yet. */
export function openChatHome(layout: Layout, place: ChatPlace): Promise<Directory | undefined> {
  return Directory.open(chatDir(layout, place))
}
