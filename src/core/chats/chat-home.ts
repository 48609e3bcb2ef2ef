// The directory of one chat in which runs of reach `chat` write: their session files, their scratch, and what visitors send. It
// lies outside of the workspace, so that visitors change nothing that other runs of the folder read.
import { dirname } from 'node:path'
import { Directory } from '../../lib/files/directory.ts'
import { chownTree } from '../../lib/files/directory-tree.ts'
import { chatDir, type Layout } from '../layout.ts'

/** What agents call it, and what is the HOME of such a run in its cell. */
export const CHAT_HOME = '/home/chat'

/** Opens it, and makes it where it is missing. */
export async function makeChatHome(layout: Layout, folder: string, jid: string): Promise<Directory> {
  const path = chatDir(layout, folder, jid)
  await (await Directory.make(layout.chats, 0o700, { follow: true })).close()
  // Agents enter the directory of their folder, and neither list it nor write there.
  await using parent = await Directory.make(dirname(path), 0o700)
  if (layout.agent) await parent.setMode(0o711)
  const home = await Directory.make(path, 0o700, { owner: layout.agent })
  try {
    // Agents had another user before.
    if (layout.agent && (await home.stat()).uid !== layout.agent.uid) await chownTree(home, layout.agent)
    return home
  } catch (error) {
    await home.close()
    throw error
  }
}

/** Undefined where no run has written there yet. */
export function openChatHome(layout: Layout, folder: string, jid: string): Promise<Directory | undefined> {
  return Directory.open(chatDir(layout, folder, jid))
}
