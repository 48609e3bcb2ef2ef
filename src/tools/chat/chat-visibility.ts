// Which messages of a chat the caller may see. A link's chat may have belonged to another folder earlier, so only messages of
// its current owner and of the caller's folders are visible.
import { isLinkChat } from '../../core/delivery/channel.ts'
import { findChatFolder } from '../../core/routing/chat-folder.ts'
import { administeredRoots } from '../../registry/authorization.ts'
import type { Context } from '../../registry/context.ts'

export interface ChatVisibility {
  readonly owner: string | undefined
  /** Visible folders, including those below; undefined if all messages are visible. */
  readonly folders: readonly string[] | undefined
  /** Whether error causes are shown, which name programs, hosts and models. */
  readonly showsCauses: boolean
}

export async function chatVisibility(ctx: Context, jid: string): Promise<ChatVisibility> {
  const owner = await findChatFolder(ctx.tx, jid, ctx.routes)
  const reach = isLinkChat(jid) ? await administeredRoots(ctx) : undefined
  const showsCauses = ctx.reach !== 'chat'
  return { owner, showsCauses, folders: reach && [...new Set([...(owner === undefined ? [] : [owner]), ...reach])] }
}
