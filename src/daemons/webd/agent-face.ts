// Who the agent of a link is to its visitors, and its picture: GET /chat/<token>/picture.
import { createHash } from 'node:crypto'
import type { AgentIdentity } from '../../core/groups/agent-identity.ts'
import { groups } from '../../core/groups/groups.ts'
import { readIdentity, readPicture } from '../../core/groups/identity-files.ts'
import { matchesEtag } from '../../lib/http/content-negotiation.ts'
import { refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { type AgentProfile, tintOf } from '../../web/text/agent-profile.ts'
import { linkFolder, type TokenRow } from './link-cache.ts'
import type { LinkRequest } from './link-request.ts'

/** Path below the link. */
export const PICTURE_PATH = 'picture'

/** An old link may have no folder, and its folder no group. */
export async function readAgent(
  { layout, assistantName }: InstanceHost,
  tx: Tx,
  row: TokenRow,
): Promise<AgentIdentity> {
  const group = await groups.find(tx, { folder: linkFolder(row) ?? '' })
  return group ? readIdentity(layout, group, assistantName) : { name: assistantName }
}

export async function readAgentProfile(host: InstanceHost, tx: Tx, row: TokenRow): Promise<AgentProfile> {
  const agent = await readAgent(host, tx, row)
  const tint = agent.colour ?? tintOf(linkFolder(row) ?? '')
  return { ...agent, tint, picture: agent.picture === undefined ? undefined : `./${PICTURE_PATH}` }
}

export async function sendPicture(
  { layout }: InstanceHost,
  request: LinkRequest,
  { folder, picture }: { readonly folder: string; readonly picture: string | undefined },
): Promise<void> {
  const found = layout && picture !== undefined ? await readPicture(layout, folder, picture) : undefined
  if (!found) refuse('not_found', 'there is no picture')
  const headers = {
    'Content-Type': found.type,
    ETag: `"${createHash('sha256').update(found.bytes).digest('hex').slice(0, 32)}"`,
    'Cache-Control': 'private, no-cache',
    'Content-Security-Policy': "default-src 'none'; sandbox; frame-ancestors 'none'",
    'Cross-Origin-Resource-Policy': 'cross-origin',
  }
  if (matchesEtag(request.header('if-none-match'), headers.ETag)) return request.sendEmpty(304, headers)
  request.sendBytes(200, headers, found.bytes)
}
