// Route tokens: bearer links that deliver to a folder. Minted on every face by these two verbs alone.
import { z } from 'zod'
import { defaultReach, hasReach, Reach } from '../core/access/reach.ts'
import { mayReachFolder } from '../core/access/tiers.ts'
import { groups } from '../core/groups/groups.ts'
import { LinkStats, linkStats } from '../core/links/link-stats.ts'
import { createToken, hashToken } from '../core/links/link-token.ts'
import { RouteToken, routeTokens, verifyContext } from '../core/links/route-tokens.ts'
import { storedBytes } from '../core/links/storage-use.ts'
import { parseSignatureScheme, signatureSchemeFault, signingSecretFault } from '../core/links/webhook-signatures.ts'
import { legacyLinkFolder } from '../core/routing/chat-folder.ts'
import { Folder, Jid, LabelSegment, multilineText, text } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import {
  actingFolder,
  hasTool,
  isAdmin,
  mustHaveTool,
  requireHost,
  requireToolForAgents,
} from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { listVerb, Paging } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'
import type { Order } from '../store/table.ts'

const NEWEST_FIRST: Order<z.output<typeof RouteToken>> = [
  ['created_at', 'desc'],
  ['token_hash', 'asc'],
]

const Mint = z.object({
  jid_suffix: LabelSegment.optional().describe("Sets this link's chat apart from the folder's own"),
  context: RouteToken.shape.context,
  target_folder: Folder.optional().describe(
    'Where it delivers; your own folder unless said. A person who administers several folders names it: the deepest of them that covers it issues the link',
  ),
  tools: Reach.optional().describe(
    'Which of your tools messages through it may use: chat (in their own chat), work, or all; chat for a chat link and work for a webhook unless said',
  ),
})
const HookMint = Mint.extend({
  source_label: LabelSegment.describe('Who will post: becomes the sender of every message'),
})
const VerifiedMint = HookMint.extend({
  verify: text(signatureSchemeFault),
  verify_secret: multilineText(4096).meta({ writeOnly: true }),
})
const Minted = z.object({
  token: z.string().describe('The raw token, shown this once'),
  url: z.string(),
  jid: Jid,
})

/** What whoever has the data directory sees of a link. */
const Listed = RouteToken.pick({
  jid: true,
  owner_folder: true,
  target_folder: true,
  created_at: true,
  context: true,
  tools: true,
  verify: true,
}).extend({
  last_used_at: LinkStats.shape.last_used_at.optional(),
  accepted: LinkStats.shape.accepted,
  refused: LinkStats.shape.refused,
  stored_bytes: z.int().describe('What is stored of the messages of its chat, as LINK_QUOTA counts it'),
})

type Mint = z.output<typeof Mint>
type HookMint = z.output<typeof HookMint>

export const routeTokensResource = defineResource({
  of: routeTokens,
  title: 'RouteTokens',
  servedBy: 'routd',
  listKey: 'tokens',
  key: ['jid'],
  verbs: (table) => ({
    list: listVerb(table, 'tokens', {
      authorize: requireToolForAgents,
      order: NEWEST_FIRST,
      folder: 'owner_folder',
      when: 'See which links your folder has handed out.',
      tool: 'list_route_tokens',
      toolReply: ({ tokens }) => ({ tokens }),
    }),

    issue_chat: defineVerb({
      http: 'POST /chat',
      status: 201,
      tool: 'issue_chat_link',
      when: 'Hand out a URL where anyone who has it can chat with you.',
      input: Mint,
      output: Minted,
      authorize: mayMint,
      actingFolder: ownerOf,
      run: async (ctx, input) => {
        const target = await targetOf(ctx, input)
        return mint(ctx, input, { jid: joined('web', target, input.jid_suffix), url: (token) => `chat/${token}/` })
      },
    }),

    issue_hook: defineVerb({
      http: 'POST /hook',
      status: 201,
      tool: 'issue_webhook',
      when: 'Hand out a URL that another system can post to.',
      input: HookMint,
      output: Minted,
      authorize: mayMint,
      actingFolder: ownerOf,
      run: (ctx, input) => mintHook(ctx, input),
    }),

    /** A hook that takes only signed requests (decision L18): no bearer and no socket reaches this. */
    issue_verified: defineVerb({
      input: VerifiedMint,
      output: Minted,
      authorize: requireHost,
      run: (ctx, { verify, verify_secret, ...input }) => {
        const fault = signingSecretFault(parseSignatureScheme(verify), verify_secret)
        if (fault !== undefined) refuse('invalid', `the secret ${fault}`)
        return mintHook(ctx, input, { verify, secret: verify_secret })
      },
    }),

    revoke: defineVerb({
      http: 'DELETE /{jid}',
      tool: 'revoke_route_token',
      when: 'Kill a link at once.',
      input: z.object({ jid: Jid }),
      output: z.object({ deleted: z.int().describe('How many tokens of this JID there were') }),
      authorize: async (ctx, { jid }) => {
        if (ctx.caller.kind === 'agent') await mustHaveTool(ctx, ctx.caller.folder)
        const { owner_folder } =
          (await table.find(ctx.tx, { jid })) ?? refuse('not_found', `there is no token at ${jid}`)
        // Which folder that is, is told to its admins alone.
        if (!(await isAdmin(ctx, owner_folder)))
          refuse('forbidden', `${ctx.tool}: not permitted: it needs admin on the folder that issued ${jid}`)
      },
      run: async (ctx, { jid }) => ({ deleted: await table.remove(ctx.tx, { jid }) }),
    }),

    /** The command line's view: every link, or what one folder owns and what is delivered to it. */
    list_of: defineVerb({
      isReadOnly: true,
      input: Paging.extend({ folder: Folder.optional() }),
      output: z.object({ tokens: z.array(Listed), next: z.string().optional() }),
      authorize: requireHost,
      run: async (ctx, { folder, limit, after }) => {
        const isKnown = folder === undefined || (await groups.find(ctx.tx, { folder }))
        if (!isKnown) refuse('not_found', `there is no group ${folder}`)
        const isOf = (token: z.output<typeof RouteToken>): boolean =>
          token.owner_folder === folder || deliveryOf(token) === folder
        const request = { order: NEWEST_FIRST, limit, after }
        const { rows, next } = await table.page(ctx.tx, folder === undefined ? request : { ...request, keep: isOf })
        const tokens = []
        for (const row of rows) tokens.push(await withStats(ctx, row))
        return { tokens, ...(next === undefined ? {} : { next }) }
      },
    }),
  }),
})

async function withStats(ctx: Context, row: z.output<typeof RouteToken>): Promise<z.output<typeof Listed>> {
  const { token_hash, source_label: _source, verify_secret: _secret, ...shown } = row
  const { last_used_at, accepted = 0, refused = {} } = (await linkStats.find(ctx.tx, { token_hash })) ?? {}
  const stored_bytes = await storedBytes(ctx.tx, 'chat', row.jid)
  return { ...shown, ...(last_used_at === undefined ? {} : { last_used_at }), accepted, refused, stored_bytes }
}

/** A row from before targets were recorded reads its JID the old way (decision L6). */
function deliveryOf({ jid, target_folder }: { jid: string; target_folder?: string | undefined }): string | undefined {
  return target_folder ?? legacyLinkFolder(jid)
}

async function targetOf(ctx: Context, { target_folder }: Mint): Promise<string> {
  return target_folder ?? (await actingFolder(ctx))
}

/** On the host, the folder that is named is the one that issues (decision L3). */
async function ownerOf(ctx: Context, { target_folder }: Mint): Promise<string> {
  return ctx.caller.kind === 'host' && target_folder !== undefined ? target_folder : actingFolder(ctx, target_folder)
}

/** An agent's grant must cover the target; a person's target must lie in the subtree that they mint for. */
async function mayMint(ctx: Context, input: Mint): Promise<void> {
  const target = await targetOf(ctx, input)
  await mustHaveTool(ctx, target)
  await mayGiveTools(ctx, target, input)
  if (ctx.caller.kind === 'agent' || ctx.caller.kind === 'host') return
  const owner = await ownerOf(ctx, input)
  if (!(await hasTool(ctx, owner))) refuse('forbidden', `${ctx.tool}: not permitted on ${owner}`)
  if (!mayReachFolder(owner, target)) refuse('forbidden', `${target} is not ${owner} and does not lie below it`)
}

/** More than visitors usually have is given by those who could do all of it themselves. */
async function mayGiveTools(
  ctx: Context,
  target: string,
  { tools, source_label }: Mint & Partial<HookMint>,
): Promise<void> {
  const usual = defaultReach(source_label === undefined ? 'web:' : 'hook:')
  if (tools === undefined || hasReach(usual, tools)) return
  if (ctx.reach === 'all' && (await isAdmin(ctx, target))) return
  refuse('forbidden', `${ctx.tool}: tools "${tools}" may be given only by an administrator of ${target}`)
}

function joined(scheme: 'web' | 'hook', ...parts: (string | undefined)[]): string {
  return `${scheme}:${parts.filter((part) => part !== undefined).join('/')}`
}

interface SignatureSettings {
  readonly verify: string
  readonly secret: string
}

interface TokenTarget {
  jid: string
  url(token: string): string
  source_label?: string
  signed?: SignatureSettings | undefined
}

type Minted = z.output<typeof Minted>

async function mintHook(ctx: Context, input: HookMint, signed?: SignatureSettings): Promise<Minted> {
  const { source_label } = input
  const jid = joined('hook', await targetOf(ctx, input), source_label, input.jid_suffix)
  return mint(ctx, input, { jid, url: (token) => `hook/${token}`, source_label, signed })
}

async function mint(ctx: Context, input: Mint, { jid, url, source_label, signed }: TokenTarget): Promise<Minted> {
  const target_folder = await targetOf(ctx, input)
  const owner_folder = await ownerOf(ctx, input)
  for (const folder of new Set([owner_folder, target_folder])) {
    if (!(await groups.find(ctx.tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
  }
  const taken = await routeTokens.find(ctx.tx, { jid })
  // Live tokens of one JID agree on both folders, because every mint is held against the ones before.
  if (taken && (taken.owner_folder !== owner_folder || deliveryOf(taken) !== target_folder)) {
    refuse('conflict', `${jid} is minted by another folder already`, 'choose another suffix')
  }
  const token = createToken(ctx.random)
  const token_hash = hashToken(token)
  const context = input.context === '' ? undefined : input.context
  await routeTokens.insert(ctx.tx, {
    token_hash,
    jid,
    owner_folder,
    target_folder,
    source_label,
    created_at: ctx.now,
    context,
    tools: input.tools,
    verify: signed?.verify,
    verify_secret: signed && ctx.keyring.seal(signed.secret, verifyContext(token_hash)),
  })
  return { token, url: `${ctx.webBase}/${url(token)}`, jid }
}
