// The links that `npm start` prints. The chat and the hook are minted once; the store has no raw tokens, so they are printed
// as proofs, which stay the same until SECRETS_KEY changes. See docs/decisions.md#npm-start.
import { OPERATOR_ROLE } from '../../core/access/policy.ts'
import { createTokenProof } from '../../core/links/link-token.ts'
import { routeTokens } from '../../core/links/route-tokens.ts'
import type { OpenHost } from '../../daemons/process/host.ts'
import { refuse } from '../../lib/refusal.ts'
import { callVerb } from '../../registry/call.ts'
import type { RequestContext } from '../../registry/context.ts'
import { aclMembershipResource } from '../../resources/acl-membership.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'
import { sessionsResource } from '../../resources/sessions.ts'
import { hostCaller } from '../command.ts'
import { localhostUrl } from './localhost-url.ts'

const FOLDER = 'main'
const SUFFIX = 'start'
const SOURCE = 'curl'

export interface StartLinks {
  readonly chat: string
  readonly hook: string
  /** Works once. */
  readonly signIn: string
}

const OPERATOR = 'local:operator'

/** `address` is the one of proxyd, which may differ from WEB_HOST. */
export async function mintStartLinks(host: OpenHost, address: string): Promise<StartLinks> {
  const origin = localhostUrl(address)
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
  return {
    chat: `${origin}/chat/${chat}/`,
    hook: `${origin}/hook/${hook}`,
    signIn: `${origin}${await createOperatorLink(context)}`,
  }
}

/** The person who runs `npm start` is the operator; the membership is added once. */
async function createOperatorLink(context: RequestContext): Promise<string> {
  await callVerb(context, aclMembershipResource.verbs.add, { subject: OPERATOR, role: OPERATOR_ROLE })
  return (await callVerb(context, sessionsResource.verbs.create_link, { sub: OPERATOR })).path
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
