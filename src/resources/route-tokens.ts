// Route tokens: bearer links that deliver to a folder. All faces mint them through the verbs here.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { checkAccess } from '../core/access/policy.ts'
import { defaultReach, hasReach, Reach } from '../core/access/reach.ts'
import { mayReachFolder } from '../core/access/tiers.ts'
import { isLinkChat } from '../core/delivery/channel.ts'
import { AnswerTarget, endEarlierAnswers, ownLinkFault } from '../core/links/answer-targets.ts'
import { LinkStats, linkStats } from '../core/links/link-stats.ts'
import { createToken, hashToken } from '../core/links/link-token.ts'
import { ensurePersonChat, isPersonSuffix } from '../core/links/person-chats.ts'
import {
  answerContext,
  isAnswerUrl,
  isPersonChat,
  RouteToken,
  routeTokens,
  verifyContext,
} from '../core/links/route-tokens.ts'
import { storedBytes } from '../core/links/storage-use.ts'
import { Visitors } from '../core/links/visitor-chats.ts'
import {
  createStandardSecret,
  parseSignatureScheme,
  signatureSchemeFault,
  signingSecretFault,
} from '../core/links/webhook-signatures.ts'
import { envelopes } from '../core/messages/envelopes.ts'
import {
  findReceivedMessage,
  LinkDelivery,
  listLinkDeliveries,
  postLinkTest,
  replayLinkMessage,
} from '../core/messages/link-deliveries.ts'
import type { Message } from '../core/messages/messages.ts'
import { legacyLinkFolder } from '../core/routing/chat-folder.ts'
import { checkedText, Folder, Jid, LabelSegment, line, multilineText, pageLimit } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { findSendFault } from '../permissions/chat-access.ts'
import {
  actingFolder,
  canOperate,
  hasTool,
  INSTANCE_SCOPE,
  isAdmin,
  isByOperator,
  mustHaveTool,
  operatorOn,
  operatorWho,
  requireHost,
  requireToolForAgents,
  subjectOf,
} from '../registry/authorization.ts'
import { callVerb } from '../registry/call.ts'
import type { Context, RequestContext } from '../registry/context.ts'
import { administeredRows, ascending, listPage, mustFindGroup, Paging, readPage, UNPAGED } from '../registry/crud.ts'
import { defineResource, defineVerb, toolArguments } from '../registry/resource.ts'
import type { Order, PageRequest } from '../store/table.ts'

const NEWEST_FIRST: Order<z.output<typeof RouteToken>> = [['created_at', 'desc'], ...ascending('token_hash')]

const MintInput = z.object({
  jid_suffix: LabelSegment.optional().describe("Gives this link a chat apart from the folder's own"),
  context: RouteToken.shape.context,
  target_folder: Folder.optional().describe(
    'The folder that gets the messages; default: your own. A person who administers several folders must name it: the deepest of them that covers it issues the link',
  ),
  tools: Reach.optional().describe(
    'Which of your tools messages through this link may use: chat (in their own chat), work, or all; default: chat for a chat link, work for a webhook',
  ),
})
const HookMintInput = MintInput.extend({
  source_label: LabelSegment.describe('The system that will post; becomes the sender of every message'),
})
const OperatorHookInput = HookMintInput.extend({
  verify: checkedText(signatureSchemeFault).optional(),
  verify_secret: multilineText(4096).optional().meta({ writeOnly: true }),
  answer_to: AnswerTarget.optional().describe('A chat or an https URL that gets the answers, too'),
})
const MintResponse = z.object({
  token: z.string().describe('The raw token, shown only once'),
  url: z.string(),
  jid: Jid,
})

const OperatorHookResponse = MintResponse.extend({
  answer_secret: z.string().optional().describe('Signs what is posted to the URL; shown only once'),
})

const PublicLink = RouteToken.pick({
  jid: true,
  owner_folder: true,
  target_folder: true,
  created_at: true,
  context: true,
  tools: true,
})
const LinkCounts = z.object({
  verify: checkedText(signatureSchemeFault).optional().describe('How requests must be signed'),
  visitors: Visitors.optional(),
  last_used_at: LinkStats.shape.last_used_at.optional(),
  accepted: LinkStats.shape.accepted,
  refused: LinkStats.shape.refused,
  stored_bytes: z.int().describe('Bytes stored for the messages of its chat, as LINK_QUOTA counts them'),
})
/** A link as listed on the command line. */
const LinkSummary = PublicLink.extend(LinkCounts.shape).extend({ answer_to: RouteToken.shape.answer_to })

type Link = z.output<typeof RouteToken>
type MintInput = z.output<typeof MintInput>
type OperatorHookResponse = z.output<typeof OperatorHookResponse>
type HookMintInput = z.output<typeof HookMintInput>

export const routeTokensResource = defineResource({
  of: routeTokens,
  title: 'RouteTokens',
  servedBy: 'routd',
  listKey: 'tokens',
  key: ['jid'],
  verbs: (table) => ({
    list: defineVerb({
      http: 'GET /',
      isReadOnly: true,
      when: 'List the links that your folder has issued.',
      tool: 'list_route_tokens',
      input: Paging.extend({
        folder: Folder.optional().describe('Only links that this folder owns or that deliver to it'),
        stats: z
          .boolean()
          .optional()
          .describe('Whether to add the member stats: when each link was last used, and its counts'),
      }),
      toolInput: toolArguments({}, () => UNPAGED),
      toolReply: ({ tokens }) => ({ tokens }),
      output: z.object({
        tokens: z.array(PublicLink),
        stats: z.array(LinkCounts).optional().describe('With stats=true: one entry per token, in the same order'),
        next: z.string().optional(),
      }),
      authorize: requireToolForAgents,
      run: async (ctx, { folder, stats, ...paging }) => {
        const { below, keep: isAdministered } = await administeredRows<Link>(ctx, 'owner_folder')
        const keep = (link: Link): boolean => Boolean(isAdministered?.(link)) && isListed(link, folder)
        const request = { order: NEWEST_FIRST, ...paging, below, anyOf: linksOf(folder), keep }
        // The schemas of both members select theirs.
        const withCounts = async () => {
          const page = await listSummaries(ctx, request)
          return { ...page, stats: page.tokens }
        }
        const page = stats ? await withCounts() : await listPage(ctx, table, 'tokens', request)
        // Callers who do not administer the folder must not learn whether it exists.
        if (folder !== undefined && page.tokens.length === 0 && (await isAdmin(ctx, folder)))
          await mustFindGroup(ctx, folder)
        return page
      },
    }),

    issue_chat: defineVerb({
      http: 'POST /chat',
      status: 201,
      tool: 'issue_chat_link',
      when: 'Create a URL where anyone who has it can chat with you.',
      input: MintInput,
      output: MintResponse,
      authorize: mustBeAllowedToMint,
      actingFolder: ownerOf,
      run: (ctx, input) => mintChat(ctx, input),
    }),

    /** A chat link whose visitors see only their own conversation. See docs/decisions.md#visitors-apart. */
    issue_apart: defineVerb({
      input: MintInput,
      output: MintResponse,
      authorize: operatorWho(mayMintForOperator),
      run: (ctx, input) => mintChat(ctx, input, 'apart'),
    }),

    issue_hook: defineVerb({
      http: 'POST /hook',
      status: 201,
      tool: 'issue_webhook',
      when: 'Create a URL that another system can post to.',
      input: HookMintInput,
      output: MintResponse,
      authorize: mustBeAllowedToMint,
      actingFolder: ownerOf,
      run: (ctx, input) => mintHook(ctx, input),
    }),

    /** A hook that accepts only signed requests or whose answers are sent on. See docs/decisions.md#signed-webhooks. */
    issue_operator_hook: defineVerb({
      input: OperatorHookInput,
      output: OperatorHookResponse,
      authorize: operatorWho(mayMintForOperator),
      run: async (ctx, { verify, verify_secret, answer_to, ...input }): Promise<OperatorHookResponse> => {
        const signed = signatureSettings(verify, verify_secret)
        if (answer_to === undefined) return mintHook(ctx, input, { signed })
        await mustBeAnswerable(ctx, await targetOf(ctx, input), answer_to)
        const answer_secret = isAnswerUrl(answer_to) ? createStandardSecret(ctx.random) : undefined
        const minted = await mintHook(ctx, input, { signed, answer: { to: answer_to, secret: answer_secret } })
        return { ...minted, answer_secret }
      },
    }),

    /** Whether an answer may still be sent to the chat that its webhook names; for the process that delivers it. */
    check_answer: defineVerb({
      isReadOnly: true,
      input: z.object({ jid: Jid, to: Jid }),
      output: z.object({ fault: z.string().optional() }),
      authorize: requireHost,
      run: async (ctx, { jid, to }) => {
        const link = await routeTokens.find(ctx.tx, { jid, answer_to: to })
        const folder = link && deliveryOf(link)
        return { fault: folder === undefined ? `the link ${jid} is revoked` : await findSendFault(ctx, to, folder) }
      },
    }),

    revoke: defineVerb({
      http: 'DELETE /{jid}',
      tool: 'revoke_route_token',
      when: 'Revoke a link immediately.',
      input: z.object({ jid: Jid }),
      output: z.object({ deleted: z.int().describe('Number of deleted tokens of this JID') }),
      authorize: async (ctx, { jid }) => {
        if (ctx.caller.kind === 'agent') await mustHaveTool(ctx, ctx.caller.folder)
        const row = await table.find(ctx.tx, { jid })
        if (!row || isPersonChat(row)) refuse('not_found', noTokenText(jid))
        const { owner_folder } = row
        // The error does not name the folder, which the caller must not learn.
        if (!(await isAdmin(ctx, owner_folder)))
          refuse('forbidden', `${ctx.tool}: not permitted: you do not administer the folder that issued ${jid}`)
      },
      run: async (ctx, { jid }) => ({ deleted: await table.remove(ctx.tx, { jid }) }),
    }),

    /** The caller's own chat with a folder. See docs/decisions.md#person-chats. */
    open_person_chat: defineVerb({
      input: z.object({ folder: Folder }),
      output: z.object({ jid: Jid, path: z.string(), created: z.boolean() }),
      authorize: async (ctx, { folder }) => {
        const isPerson = ctx.caller.kind === 'person'
        if (
          !isPerson ||
          !checkAccess(await ctx.policy(), subjectOf(ctx.caller), { action: 'interact', scope: folder }).allow
        )
          refuse('forbidden', `you may not interact with ${folder}`)
      },
      auditInput: (input, { created }) => (created ? input : undefined),
      run: async (ctx, { folder }) => {
        await mustFindGroup(ctx, folder)
        return ensurePersonChat(ctx.tx, ctx, folder, principalOf(ctx.caller))
      },
    }),

    /** For the command line and the dashboard: all links, or those that a folder owns or gets messages from. */
    list_of: defineVerb({
      isReadOnly: true,
      input: Paging.extend({ folder: Folder.optional() }),
      output: z.object({ tokens: z.array(LinkSummary), next: z.string().optional() }),
      authorize: operatorOn(({ folder = INSTANCE_SCOPE }) => folder),
      run: async (ctx, { folder, limit, after }) => {
        if (folder !== undefined) await mustFindGroup(ctx, folder)
        const keep = (link: Link): boolean => isListed(link, folder)
        return listSummaries(ctx, { order: NEWEST_FIRST, limit, after, anyOf: linksOf(folder), keep })
      },
    }),

    /** Messages that arrived through the links of a JID, newest first. */
    deliveries: defineVerb({
      isReadOnly: true,
      input: z.object({ jid: Jid, limit: pageLimit(20, 200), before: z.int().optional() }),
      output: z.object({ deliveries: z.array(LinkDelivery) }),
      authorize: operatorOn(receiverOf),
      run: async (ctx, { jid, limit, before }) => {
        const link = await mustFindLink(ctx, jid)
        const [folder, { visitors }] = [deliveryOf(link) ?? '', link]
        return { deliveries: await listLinkDeliveries(ctx.tx, { jid, folder, visitors, limit, before }) }
      },
    }),

    /** Posts a test through the newest link of a JID, as a visitor or its source would. It does not count as a use of the link. */
    deliver_test: defineVerb({
      input: z.object({ jid: Jid }),
      output: z.object({ message_id: z.string() }),
      authorize: operatorOn(receiverOf),
      appendsMessages: true,
      run: async (ctx, { jid }) => {
        const posted = await postLinkTest(ctx.tx, ctx, await mustFindLink(ctx, jid))
        if (!posted) refuse('not_found', noTokenText(jid))
        ctx.afterCommit(() => ctx.signals.emit(posted.keys))
        return { message_id: posted.id }
      },
    }),

    /** Delivers a message of a link again. See docs/decisions.md#tests-and-replays-of-links. */
    replay: defineVerb({
      input: z.object({ id: line(256) }),
      output: z.object({ message_id: z.string() }),
      authorize: operatorOn(
        async ({ id }, { tx }) => (await findReceivedMessage(tx, id))?.target_folder ?? INSTANCE_SCOPE,
      ),
      appendsMessages: true,
      run: async (ctx, { id }) => {
        const message = await findReceivedMessage(ctx.tx, id)
        if (!message) refuse('not_found', `no message with id ${id} arrived`)
        await mustBeReplayable(ctx, message)
        const { id: message_id, keys } = await replayLinkMessage(ctx.tx, ctx, message)
        ctx.afterCommit(() => ctx.signals.emit(keys))
        return { message_id }
      },
    }),
  }),
})

/** The path of the caller's own chat with the folder. */
export async function openPersonChat(request: RequestContext, folder: string): Promise<string> {
  return (await callVerb(request, routeTokensResource.verbs.open_person_chat, { folder })).path
}

/** Chats of people are in no list. */
function isListed(link: Link, folder: string | undefined): boolean {
  return !isPersonChat(link) && (folder === undefined || link.owner_folder === folder || deliveryOf(link) === folder)
}

/** What the links of a folder have in common; old rows without a target may be among them. */
function linksOf(folder: string | undefined): PageRequest<Link>['anyOf'] {
  if (folder === undefined) return undefined
  return [{ owner_folder: folder }, { target_folder: folder }, { target_folder: null }]
}

async function listSummaries(
  ctx: Context,
  request: PageRequest<Link>,
): Promise<{ tokens: z.output<typeof LinkSummary>[]; next?: string }> {
  const { rows, next } = await readPage(ctx, routeTokens, request)
  const tokens = []
  for (const row of rows) tokens.push(await withStats(ctx, row))
  return { tokens, ...(next === undefined ? {} : { next }) }
}

async function withStats(ctx: Context, row: z.output<typeof RouteToken>): Promise<z.output<typeof LinkSummary>> {
  const {
    token_hash,
    source_label: _source,
    verify_secret: _secret,
    answer_secret: _key,
    person: _person,
    ...link
  } = row
  const { last_used_at, accepted = 0, refused = {} } = (await linkStats.find(ctx.tx, { token_hash })) ?? {}
  const stored_bytes = await storedBytes(ctx.tx, 'chat', row.jid)
  return { ...link, ...(last_used_at === undefined ? {} : { last_used_at }), accepted, refused, stored_bytes }
}

/** Old rows without a target get it from the JID. See docs/decisions.md#legacy-links. */
function deliveryOf({ jid, target_folder }: { jid: string; target_folder?: string | undefined }): string | undefined {
  return target_folder ?? legacyLinkFolder(jid)
}

function noTokenText(jid: string): string {
  return `there is no token at ${jid}`
}

/** The newest link of a JID. */
async function mustFindLink(ctx: Pick<Context, 'tx'>, jid: string): Promise<Link> {
  const [link] = await routeTokens.list(ctx.tx, { jid }, NEWEST_FIRST)
  return link && !isPersonChat(link) ? link : refuse('not_found', noTokenText(jid))
}

/** The folder that gets the messages of a JID; the instance if there is no such link. */
async function receiverOf({ jid }: { readonly jid: string }, { tx }: Context): Promise<string> {
  const link = await routeTokens.find(tx, { jid })
  return (link && !isPersonChat(link) ? deliveryOf(link) : undefined) ?? INSTANCE_SCOPE
}

async function mustBeReplayable(ctx: Context, message: Message): Promise<void> {
  const { id, jid, target_folder, seq } = message
  const envelope = await envelopes.find(ctx.tx, { message_seq: seq })
  if (!isLinkChat(jid) || envelope || target_folder === undefined)
    refuse('conflict', `message ${id} did not arrive through a link`, 'only messages of links can be replayed')
  if (isPersonSuffix(jid.slice(jid.lastIndexOf('/') + 1)))
    refuse('conflict', `message ${id} is from the chat of a person`, 'only that person can send it again')
  await mustFindGroup(ctx, target_folder)
}

async function targetOf(ctx: Context, { target_folder }: MintInput): Promise<string> {
  return target_folder ?? (await actingFolder(ctx))
}

/** On the host, the named folder is the issuer. See docs/decisions.md#conflicting-links. */
async function ownerOf(ctx: Context, { target_folder }: MintInput): Promise<string> {
  return ctx.caller.kind === 'host' && target_folder !== undefined ? target_folder : actingFolder(ctx, target_folder)
}

/** An agent's grant must cover the target; a person's target must be in the subtree of the issuing folder. */
async function mustBeAllowedToMint(ctx: Context, input: MintInput): Promise<void> {
  const target = await targetOf(ctx, input)
  await mustHaveTool(ctx, target)
  await mustBeAllowedToGiveTools(ctx, target, input)
  if (ctx.caller.kind === 'agent' || ctx.caller.kind === 'host') return
  const owner = await ownerOf(ctx, input)
  if (!(await hasTool(ctx, owner))) refuse('forbidden', `${ctx.tool}: not permitted on ${owner}`)
  if (!mayReachFolder(owner, target)) refuse('forbidden', `${target} is neither ${owner} nor below it`)
}

async function mayMintForOperator(ctx: Context, input: MintInput): Promise<boolean> {
  await mustBeAllowedToMint(ctx, input)
  return canOperate(ctx, await targetOf(ctx, input))
}

/** Only an administrator with full reach may give a link more tools than the default. */
async function mustBeAllowedToGiveTools(
  ctx: Context,
  target: string,
  { tools, source_label }: MintInput & Partial<HookMintInput>,
): Promise<void> {
  const defaultTools = defaultReach(source_label === undefined ? 'web:' : 'hook:')
  if (tools === undefined || hasReach(defaultTools, tools)) return
  if (ctx.reach === 'all' && (await isAdmin(ctx, target))) return
  refuse('forbidden', `${ctx.tool}: only an administrator of ${target} may give tools "${tools}"`)
}

function buildJid(scheme: 'web' | 'hook', ...parts: (string | undefined)[]): string {
  return `${scheme}:${parts.filter((part) => part !== undefined).join('/')}`
}

interface SignatureSettings {
  readonly verify: string
  readonly secret: string
}

function signatureSettings(verify: string | undefined, secret: string | undefined): SignatureSettings | undefined {
  if (verify === undefined && secret === undefined) return undefined
  if (verify === undefined) return refuse('invalid', 'verify_secret needs verify, which says how requests are signed')
  if (secret === undefined) return refuse('invalid', 'verify needs verify_secret')
  const fault = signingSecretFault(parseSignatureScheme(verify), secret)
  return fault === undefined ? { verify, secret } : refuse('invalid', `the secret ${fault}`)
}

/** The caller may send there, and so may the folder whose answers they are. */
async function mustBeAnswerable(ctx: Context, folder: string, to: string): Promise<void> {
  if (!isAnswerUrl(to)) {
    const fault = (await findSendFault(ctx, to)) ?? (await findSendFault(ctx, to, folder))
    return fault === undefined ? undefined : refuse('forbidden', `answers of ${folder} cannot go to ${to}: ${fault}`)
  }
  if (!(await isByOperator(ctx)))
    refuse('forbidden', 'only operators have answers sent to a URL', 'name a chat, or ask an operator')
  const fault = await ownLinkFault(ctx.tx, ctx.webBase, new URL(to))
  if (fault !== undefined) refuse('invalid', `answer_to: ${fault}`)
}

/** What only operators set. */
interface HookOptions {
  readonly signed?: SignatureSettings | undefined
  readonly answer?: { readonly to: string; readonly secret: string | undefined } | undefined
}

interface TokenTarget extends HookOptions {
  jid: string
  url(token: string): string
  source_label?: string
  visitors?: Visitors | undefined
}

type MintResponse = z.output<typeof MintResponse>

async function mintChat(ctx: Context, input: MintInput, visitors?: Visitors): Promise<MintResponse> {
  const jid = buildJid('web', await targetOf(ctx, input), input.jid_suffix)
  return mint(ctx, input, { jid, url: (token) => `chat/${token}/`, visitors })
}

async function mintHook(ctx: Context, input: HookMintInput, options: HookOptions = {}): Promise<MintResponse> {
  const { source_label } = input
  const jid = buildJid('hook', await targetOf(ctx, input), source_label, input.jid_suffix)
  return mint(ctx, input, { jid, url: (token) => `hook/${token}`, source_label, ...options })
}

/** See docs/decisions.md#conflicting-links. */
async function mustBeFree(
  ctx: Context,
  jid: string,
  link: Pick<Link, 'owner_folder' | 'target_folder' | 'visitors' | 'answer_to'>,
): Promise<void> {
  const { owner_folder, target_folder, visitors = 'together' } = link
  // Checking one token is enough: all live tokens of a JID have the same folders.
  const existing = await routeTokens.find(ctx.tx, { jid })
  if (!existing) return
  const issuer = isPersonChat(existing) ? undefined : existing.owner_folder
  if (issuer !== owner_folder) {
    const isKnown = issuer !== undefined && (await isAdmin(ctx, issuer))
    const name = isKnown ? `the folder ${issuer}` : 'another folder'
    refuse('conflict', `${jid} is minted by ${name} already`, 'choose another suffix')
  }
  const target = deliveryOf(existing)
  if (target !== target_folder) refuse('conflict', `${jid} delivers to ${target} already`, 'choose another suffix')
  // Answers follow the chat, so they could not tell which of its links a message came by.
  if (existing.answer_to !== undefined || link.answer_to !== undefined)
    refuse(
      'conflict',
      `${jid} has a link already, and a link whose answers are sent on must be the only one of its chat`,
      'choose another suffix, or revoke that link first',
    )
  // Otherwise visitors of one link would read what those of another believe to be their own.
  const known = existing.visitors ?? 'together'
  if (known !== visitors)
    refuse(
      'conflict',
      `${jid} has a link that keeps visitors ${known}, and a chat has only one kind`,
      'choose another suffix',
    )
}

async function mint(
  ctx: Context,
  input: MintInput,
  { jid, url, source_label, signed, answer, visitors }: TokenTarget,
): Promise<MintResponse> {
  const target_folder = await targetOf(ctx, input)
  const owner_folder = await ownerOf(ctx, input)
  for (const folder of new Set([owner_folder, target_folder])) await mustFindGroup(ctx, folder)
  if (input.jid_suffix !== undefined && isPersonSuffix(input.jid_suffix))
    refuse('invalid', `the suffix ${input.jid_suffix} is reserved for chats of people`, 'choose another suffix')
  await mustBeFree(ctx, jid, { owner_folder, target_folder, visitors, answer_to: answer?.to })
  if (answer) await endEarlierAnswers(ctx.tx, jid, ctx.now)
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
    visitors,
    verify: signed?.verify,
    verify_secret: signed && ctx.keyring.seal(signed.secret, verifyContext(token_hash)),
    answer_to: answer?.to,
    answer_secret:
      answer?.secret === undefined ? undefined : ctx.keyring.seal(answer.secret, answerContext(token_hash)),
  })
  return { token, url: `${ctx.webBase}/${url(token)}`, jid }
}
