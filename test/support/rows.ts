// Rows of links and messages for tests of the tables.

import type { Reach } from '../../src/core/access/reach.ts'
import { hashToken } from '../../src/core/links/link-token.ts'
import { routeTokens } from '../../src/core/links/route-tokens.ts'
import type { Visitors } from '../../src/core/links/visitor-chats.ts'
import type { LinkPost } from '../../src/core/messages/link-inbound.ts'
import { type Clock, timestamp, uuidv7 } from '../../src/lib/clock.ts'
import type { InstanceHost } from '../../src/registry/context.ts'

/** A stored link: the hash of its token as in posts, one character per byte. */
export async function addLink(
  { host, clock }: { readonly host: InstanceHost; readonly clock: Clock },
  jid: string,
  row: {
    owner_folder?: string
    target_folder?: string
    source_label?: string
    context?: string
    tools?: Reach
    visitors?: Visitors
  } = {
    target_folder: 'main',
  },
): Promise<string> {
  const token_hash = hashToken(`token of ${jid} ${Math.random()}`)
  await host.engine.transaction((tx) =>
    routeTokens.insert(tx, { token_hash, jid, owner_folder: 'main', created_at: timestamp(clock.now()), ...row }),
  )
  return Buffer.from(token_hash).toString('latin1')
}

export function postOf(
  { host }: { readonly host: InstanceHost },
  link: string,
  rest: Partial<LinkPost> = {},
): LinkPost {
  return {
    id: uuidv7(host.clock, host.random),
    link,
    old_target: null,
    sender: 'ci',
    topic: null,
    content: Buffer.from('hello'),
    content_type: null,
    created_at: timestamp(host.clock.now()),
    visitor: null,
    hasRound: false,
    reach: null,
    event: null,
    ...rest,
  }
}
