// The two links of `npm start`, minted once. No raw token is stored, so they are shown as proofs, which are the same at each
// start (decisions P5, L16): a bookmark works as long as the instance has its SECRETS_KEY.
import { createTokenProof } from '../../core/links/link-token.ts'
import { routeTokens } from '../../core/links/route-tokens.ts'
import type { OpenHost } from '../../daemons/process/host.ts'
import { refuse } from '../../lib/refusal.ts'
import { callVerb } from '../../registry/call.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'
import { hostCaller } from '../command.ts'

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
  const { issue_chat, issue_hook } = routeTokensResource.verbs
  const mint = { target_folder: FOLDER, jid_suffix: SUFFIX }
  const chat = await proofFor(host, `web:${FOLDER}/${SUFFIX}`, () =>
    // Its one visitor is the operator.
    callVerb(asking, issue_chat, { ...mint, tools: 'all' }),
  )
  const hook = await proofFor(host, `hook:${FOLDER}/${SOURCE}/${SUFFIX}`, () =>
    callVerb(asking, issue_hook, { ...mint, source_label: SOURCE }),
  )
  return { chat: `${door}/chat/${chat}/`, hook: `${door}/hook/${hook}` }
}

async function proofFor(host: OpenHost, jid: string, mint: () => Promise<unknown>): Promise<string> {
  let hash = await hashOf(host, jid)
  if (!hash) {
    await mint()
    hash = (await hashOf(host, jid)) ?? refuse('conflict', `${jid} was revoked at once`)
  }
  return createTokenProof(hash, host.keyring)
}

/** Of our own link: a group that is called so has one of the same JID. */
async function hashOf({ engine }: OpenHost, jid: string): Promise<Uint8Array | undefined> {
  const ours = { jid, owner_folder: FOLDER, target_folder: FOLDER }
  return (await engine.read((tx) => routeTokens.find(tx, ours)))?.token_hash
}
