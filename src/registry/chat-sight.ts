// What a caller may see of a chat within reach: of a link's chat only what was said with those who have it now, for the chat
// of a folder that is gone may have become another's.
import { isLinkChat } from '../core/channel.ts'
import { folderOfChat } from '../core/resolve.ts'
import type { Context } from './context.ts'
import { reachOf } from './needs.ts'

export interface ChatSight {
  readonly owner: string | undefined
  /** Folders, with what lies below each; nothing where all of it may be seen. */
  readonly folders: readonly string[] | undefined
  /** Whether the causes of failures are shown, which name programs, hosts and models. */
  readonly showsCauses: boolean
}

export async function sightOfChat(ctx: Context, jid: string): Promise<ChatSight> {
  const owner = await folderOfChat(ctx.tx, jid, ctx.routes)
  const reach = isLinkChat(jid) ? await reachOf(ctx) : undefined
  const showsCauses = ctx.reach !== 'chat'
  return { owner, showsCauses, folders: reach && [...new Set([...(owner === undefined ? [] : [owner]), ...reach])] }
}
