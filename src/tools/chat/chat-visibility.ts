// What a caller may see of a chat within reach: of a link's chat only what was said with those who have it now, for the chat
// of a folder that is gone may have become another's.
import { isLinkChat } from '../../core/delivery/channel.ts'
import { findChatFolder } from '../../core/routing/chat-folder.ts'
import { administeredRoots } from '../../registry/authorization.ts'
import type { Context } from '../../registry/context.ts'

export interface ChatVisibility {
  readonly owner: string | undefined
  /** Folders, with what lies below each; nothing where all of it may be seen. */
  readonly folders: readonly string[] | undefined
  /** Whether the causes of failures are shown, which name programs, hosts and models. */
  readonly showsCauses: boolean
}

export async function chatVisibility(ctx: Context, jid: string): Promise<ChatVisibility> {
  const owner = await findChatFolder(ctx.tx, jid, ctx.routes)
  const reach = isLinkChat(jid) ? await administeredRoots(ctx) : undefined
  const showsCauses = ctx.reach !== 'chat'
  return { owner, showsCauses, folders: reach && [...new Set([...(owner === undefined ? [] : [owner]), ...reach])] }
}
