// The two links that `npm start` mints once. The store has no raw tokens, so they are printed as proofs, which stay the same
// until SECRETS_KEY changes. See docs/decisions.md#npm-start.
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

/** `origin` is the address of proxyd, which may differ from WEB_HOST. */
export async function mintStartLinks(host: OpenHost, origin: string): Promise<StartLinks> {
  const context = { host, caller: hostCaller(), face: 'cli' as const }
  const { issue_chat, issue_hook } = routeTokensResource.verbs
  const mint = { target_folder: FOLDER, jid_suffix: SUFFIX }
  const chat = await findOrMintProof(host, `web:${FOLDER}/${SUFFIX}`, () =>
    // The only visitor is the operator.
    callVerb(context, issue_chat, { ...mint, tools: 'all' }),
  )
  const hook = await findOrMintProof(host, `hook:${FOLDER}/${SOURCE}/${SUFFIX}`, () =>
    callVerb(context, issue_hook, { ...mint, source_label: SOURCE }),
  )
  return { chat: `${origin}/chat/${chat}/`, hook: `${origin}/hook/${hook}` }
}

async function findOrMintProof(host: OpenHost, jid: string, mint: () => Promise<unknown>): Promise<string> {
  let hash = await findTokenHash(host, jid)
  if (!hash) {
    await mint()
    hash = (await findTokenHash(host, jid)) ?? refuse('conflict', `${jid} was revoked right after it was minted`)
  }
  return createTokenProof(hash, host.keyring)
}

/** Matches owner and target too, because a group of this name may have a link with the same JID. */
async function findTokenHash({ engine }: OpenHost, jid: string): Promise<Uint8Array | undefined> {
  const key = { jid, owner_folder: FOLDER, target_folder: FOLDER }
  return (await engine.read((tx) => routeTokens.find(tx, key)))?.token_hash
}
