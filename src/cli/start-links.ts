// The two links of `npm start`, minted anew at each start: a raw token is shown once and stored nowhere (decision P5).
import { routeTokens } from '../core/route-tokens.ts'
import type { OpenHost } from '../daemons/host.ts'
import { call } from '../registry/call.ts'
import { routeTokensResource } from '../resources/route-tokens.ts'
import { hostCaller } from './command.ts'

const FOLDER = 'main'
const SUFFIX = 'start'
const SOURCE = 'curl'

export interface StartLinks {
  readonly chat: string
  readonly hook: string
}

/** Where they really lead: `door` is what listens, whatever WEB_HOST says. */
export async function mintStartLinks(host: OpenHost, door: string): Promise<StartLinks> {
  const asking = { host, caller: hostCaller(), face: 'cli' as const }
  const { issue_chat, issue_hook, revoke } = routeTokensResource.verbs
  for (const jid of [`web:${FOLDER}/${SUFFIX}`, `hook:${FOLDER}/${SOURCE}/${SUFFIX}`]) {
    const former = await host.engine.read((tx) => routeTokens.find(tx, { jid }))
    // A group that is called so has a link of the same JID, which is not ours.
    if (former?.owner_folder === FOLDER) await call(asking, revoke, { jid })
  }
  const mint = { target_folder: FOLDER, jid_suffix: SUFFIX }
  // Its one visitor is the operator.
  const chat = await call(asking, issue_chat, { ...mint, tools: 'all' })
  const hook = await call(asking, issue_hook, { ...mint, source_label: SOURCE })
  return { chat: `${door}/chat/${chat.token}/`, hook: `${door}/hook/${hook.token}` }
}
