// A POST at a link: checked, read, appended, and only then acknowledged. `hook-fast-path.ts` handles simple hook posts with
// the same checks. See docs/decisions.md#token-check-and-append.
import { hash } from 'node:crypto'
import { filesMember, type MessageFiles, readFilesOfMessages, type ShownFile } from '../../core/files/chat-files.ts'
import { repeatFiles } from '../../core/files/repeated-files.ts'
import { removeMessageFiles } from '../../core/files/stray-files.ts'
import { isTokenProof, tokenHashFromUrl } from '../../core/links/link-token.ts'
import type { StorageQuotas } from '../../core/links/storage-use.ts'
import { visitorPart } from '../../core/links/visitor-chats.ts'
import { signatureFault, standardPrefix } from '../../core/links/webhook-signatures.ts'
import { anonymousSender } from '../../core/messages/link-deliveries.ts'
import { type AppendResult, findUsedKey, type LinkPost, type LinkPostKey } from '../../core/messages/link-inbound.ts'
import { decodeContent } from '../../core/messages/messages.ts'
import { rounds } from '../../core/turns/rounds.ts'
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import { prefersHtml } from '../../lib/http/http.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Lane } from '../../store/lanes/lane.ts'
import {
  type BranchInput,
  isBranch,
  readBranchPost,
  readStoredBranchPost,
  refuseMissingMessage,
} from './branch-post.ts'
import { isForm, type MessageInput, rawMessage, readChatBody, readFormMessage } from './chat-body.ts'
import { type CachedLink, type LinkCache, latin1 } from './link-cache.ts'
import { chargeLink, mustBeInRate, refundLink } from './link-rate.ts'
import { LinkRefusal, type LinkRequest, prebuiltResponse } from './link-request.ts'
import { findVisitor, type LinkVisitor, mustBeOwner, NO_LINK, type PersonChatOwner } from './link-visitor.ts'
import { mustBeWithinLimit, readBody } from './request-body.ts'
import { Upload, type UploadContext } from './upload.ts'
import { type PostingVisitor, postingVisitor, readVisitorKey, VISITOR_HINT } from './visitor-key.ts'

export interface LinkPostContext extends UploadContext {
  readonly links: LinkCache
  readonly lane: Lane<LinkPost, AppendResult>
  readonly quotas: StorageQuotas
}

export const NO_LINK_RESPONSE = prebuiltResponse(NO_LINK)

class SignatureRefusal extends LinkRefusal {}

/** The hash of the token in the URL; refuses a malformed one. */
export function mustBeLink({ keyring }: InstanceHost, request: LinkRequest): Uint8Array {
  request.tokenHash = tokenHashFromUrl(request.path.token, keyring)
  if (!request.tokenHash) throw NO_LINK
  return request.tokenHash
}

/** Handles a POST to a hook URL or a chat URL. They differ in how the body is read and in the response. */
export async function postToLink(context: LinkPostContext, request: LinkRequest): Promise<void> {
  const link = await findLink(context, request)
  if (!link) return request.sendPrebuilt(NO_LINK_RESPONSE)
  if (link.owner) await mustPostAsOwner(context, request, link.owner)
  try {
    const { kind } = request.path
    const header = request.header('content-type')
    const visitor = postingVisitor(context.host, request, link)
    if (kind === 'chat' && !link.isHook && isForm(header)) await postForm(context, request, link, { header, visitor })
    else await postBody(context, request, link, { header, visitor })
  } catch (error) {
    throw await countRefusal(context, link, error)
  }
}

interface PostOptions<Header> {
  /** The Content-Type. */
  readonly header: Header
  readonly visitor: PostingVisitor
}

async function postBody(
  context: LinkPostContext,
  request: LinkRequest,
  link: CachedLink,
  { header, visitor }: PostOptions<string | undefined>,
): Promise<void> {
  const { kind } = request.path
  const body = await readAdmittedBody(context, request, link)
  try {
    const message = kind === 'hook' ? rawMessage(body, header) : readChatBody(body, header, link.isHook)
    const bodyHash = () => hash('sha256', body, 'buffer')
    const options = { message, visitor: visitor.part, bodyHash, hasRound: kind === 'chat' }
    const appended = await append(context, request, link, options)
    context.links.countAccepted(link)
    if (kind === 'hook') return link.isApart ? request.sendEmpty(204, visitor.headers) : request.acknowledge()
    await respondToPost(context, request, link, { visitor, message, appended })
  } finally {
    context.budget.release(body.byteLength)
  }
}

/** A form of a chat link, which may have files. */
async function postForm(
  context: LinkPostContext,
  request: LinkRequest,
  link: CachedLink,
  { header, visitor }: PostOptions<string>,
): Promise<void> {
  if (!hasKey(request, link)) mustBeInRate(link, context.host.clock.now())
  const upload = new Upload(context, request, link, hasKey(request, link))
  let isKept = false
  try {
    await upload.receive(header)
    const message = readFormMessage(upload.texts, upload.fileCount > 0)
    const files = await upload.place(visitor.part ?? '')
    const bodyHash = () => upload.digest()
    const { isCharged } = upload
    const options = { message, visitor: visitor.part, bodyHash, hasRound: true, files, isCharged }
    const { id, created_at } = await append(context, request, link, options).catch((error) => {
      isKept = isUnclear(error)
      throw error
    })
    isKept = id === request.id
    if (isCharged && !isKept) link.bucket.refund()
    context.links.countAccepted(link)
    const shown = isKept ? files?.stored : await readFilesOfRound(context.host, id)
    await respondToPost(context, request, link, { visitor, message, appended: { id, created_at, files: shown } })
  } finally {
    upload.close()
    // What cannot be removed now is removed later, like the files of a process that died.
    if (!isKept) await upload.removeFiles().catch(context.host.faults.handler('connection'))
  }
}

interface AcceptedPost {
  readonly visitor: PostingVisitor
  readonly message: MessageInput
  readonly appended: AppendedMessage & { readonly files?: readonly ShownFile[] | undefined }
}

async function respondToPost(
  { host }: LinkPostContext,
  request: LinkRequest,
  link: CachedLink,
  { visitor: { headers, part }, message, appended: { id, created_at, files } }: AcceptedPost,
): Promise<void> {
  const { token, rest } = request.path
  if (prefersHtml(request.header('accept'))) {
    request.sendEmpty(303, { ...headers, Location: rest === undefined ? `./${token}/${id}` : `./${id}` })
    return
  }
  const stored = isBranch(message)
    ? await host.engine.read((tx) => readStoredBranchPost(tx, chatOf(link, part), id))
    : { content: decodeContent(message.content), files }
  const user = { id, content: stored.content, created_at, ...filesMember(stored.files) }
  const topic = 'topic' in stored ? { topic: stored.topic } : {}
  request.sendJson(200, { user, turn_id: id, status: 'pending', ...topic }, headers)
}

/** The chat of a visitor. */
function chatOf({ jid }: CachedLink, visitor: string | null): string {
  return jid + (visitor ?? '')
}

/** Of the first post, when a post is repeated. */
async function readFilesOfRound({ engine }: InstanceHost, id: string): Promise<readonly ShownFile[]> {
  return engine.read(async (tx) => {
    const round = await rounds.find(tx, { id })
    return round ? ((await readFilesOfMessages(tx, [round.message_seq])).get(round.message_seq) ?? []) : []
  })
}

/** Refuses everyone but the owner, whom it returns. */
export async function mustPostAsOwner(
  { host }: Pick<LinkPostContext, 'host'>,
  request: LinkRequest,
  owner: PersonChatOwner,
): Promise<LinkVisitor | undefined> {
  const visitor = await findVisitor(host, request)
  await host.engine.read((tx) => mustBeOwner(host, tx, owner, visitor))
  return visitor
}

/** A cached link is not looked up: the append checks that it still exists. */
export function findLink(
  { host, links }: LinkPostContext,
  request: LinkRequest,
): CachedLink | Promise<CachedLink | undefined> | undefined {
  request.tokenHash = tokenHashFromUrl(request.path.token, host.keyring)
  if (!request.tokenHash) return undefined
  const key = latin1(request.tokenHash)
  return links.cached(key) ?? links.find(key)
}

/** Runs the checks that come before the append and reads the body. */
async function readAdmittedBody(
  { host, budget, bodyMax }: LinkPostContext,
  request: LinkRequest,
  link: CachedLink,
): Promise<Uint8Array> {
  const max = bodyMax()
  mustBeWithinLimit(request.incoming, max)
  // A repeat is answered at any rate, and only the body shows that it is one.
  if (!hasKey(request, link)) mustBeInRate(link, host.clock.now())
  const body = await readBody(request, max, budget)
  if (!link.verify) return body
  const { scheme, secret } = link.verify
  const fault = signatureFault(scheme, secret, (name) => request.header(name), body, host.clock.now())
  if (fault === undefined) return body
  budget.release(body.byteLength)
  throw new SignatureRefusal('Not signed as this link requires', fault)
}

/**
 * Counts a refused post and returns the error to report: a post that was refused before the append has not checked that the
 * link still exists. A revoked link has no counters.
 */
export async function countRefusal({ links }: LinkPostContext, link: CachedLink, error: unknown): Promise<unknown> {
  if (error === NO_LINK) links.evict(link.key)
  if (!(error instanceof Refusal) || error === NO_LINK) return error
  const exists = error.code === 'unavailable' || (await links.find(link.key)) !== undefined
  if (!exists) return NO_LINK
  links.countRefused(link, error instanceof SignatureRefusal ? 'signature' : error.code)
  return error
}

/** Appends a message from a tool call at a link: the same rate as a post, but without a key or a signature. */
export async function postMessage(
  context: LinkPostContext,
  request: LinkRequest,
  link: CachedLink,
  message: MessageInput,
): Promise<AppendedMessage> {
  const { host, links } = context
  try {
    if (link.verify) refuse('forbidden', 'this link accepts only signed posts')
    const id = uuidv7(host.clock, host.random)
    // The client would not learn a new key.
    const key = link.isApart ? readVisitorKey(host, request) : undefined
    if (link.isApart && key === undefined)
      refuse('invalid', 'this link keeps visitors apart, so a message needs the key of its visitor', VISITOR_HINT)
    const visitor = key === undefined ? null : visitorPart(key)
    const appended = await append(context, request, link, { message, id, visitor, hasRound: true })
    links.countAccepted(link)
    return appended
  } catch (error) {
    throw await countRefusal(context, link, error)
  }
}

/** A message as the hook URL stores it: no sender but the source of the link, no round, no key. */
export function createHookPost(link: CachedLink, id: string, message: MessageInput, now: number): LinkPost {
  return {
    id,
    link: link.key,
    old_target: link.legacyTarget,
    sender: link.source ?? '',
    topic: message.topic,
    content: message.content,
    content_type: message.content_type,
    created_at: timestamp(now),
    visitor: null,
    hasRound: false,
    reach: null,
    event: null,
    key: undefined,
  }
}

export type AppendedMessage = Pick<LinkPost, 'id' | 'created_at'>

export interface AppendOptions {
  readonly message: MessageInput
  readonly visitor: string | null
  readonly hasRound: boolean
  /** SHA-256 of the body, which the idempotency key is compared by. Absent for a post that has no key. */
  readonly bodyHash?: () => Uint8Array
  readonly files?: MessageFiles | undefined
  /** Whether its rate is charged already. */
  readonly isCharged?: boolean
  /** Set if one request may append several messages. */
  readonly id?: string
  /** Used if the client gives no key. */
  readonly key?: LinkPostKey
}

/** Like `append`, and counts it. Files of a message that is not stored are removed, and a repeat costs nothing. */
export async function appendWithFiles(
  context: LinkPostContext,
  request: LinkRequest,
  link: CachedLink,
  options: AppendOptions,
): Promise<AppendedMessage> {
  const { host, links } = context
  let isKept = false
  try {
    const appended = await append(context, request, link, options)
    isKept = appended.id === request.id
    if (options.isCharged && !isKept) link.bucket.refund()
    links.countAccepted(link)
    return appended
  } catch (error) {
    isKept = isUnclear(error)
    throw error
  } finally {
    // What cannot be removed now is removed later, like the files of a process that died.
    if (options.files && host.layout && !isKept)
      await removeMessageFiles(host.layout, options.files).catch(host.faults.handler('connection'))
  }
}

async function append(
  context: LinkPostContext,
  request: LinkRequest,
  link: CachedLink,
  options: AppendOptions,
): Promise<AppendedMessage> {
  const { host } = context
  const { message, visitor, hasRound, bodyHash, files, isCharged = false, id = request.id } = options
  const sender = link.source ?? (await senderOf(host, request, link))
  const now = host.clock.now()
  const given: LinkPost = {
    ...createHookPost(link, id, message, now),
    sender,
    visitor,
    hasRound,
    // Only the operator can make a proof; that of a webhook is passed on to the system that reports, that of a person's chat
    // to the person.
    reach: isTokenProof(request.path.token) && !link.isHook && !link.owner ? 'all' : null,
    event: bodyHash ? eventOf(request, link) : null,
    key: bodyHash && ofVisitorOnly(visitor, keyOfPost(request, link, bodyHash) ?? options.key),
    files,
    client_context: message.client_context && JSON.stringify(message.client_context),
  }
  if (!isBranch(message)) return appendCharged(context, request, link, { post: given, isCharged })
  const repeated = await findRepeated(host, given)
  return repeated ?? appendBranch(context, request, link, { given, message, visitor, isCharged })
}

interface BranchPost {
  readonly given: LinkPost
  readonly message: BranchInput
  readonly visitor: string | null
  readonly isCharged: boolean
}

/** A branch without files of its own has those of the message that it replaces. */
async function appendBranch(
  context: LinkPostContext,
  request: LinkRequest,
  link: CachedLink,
  { given, message, visitor, isCharged }: BranchPost,
): Promise<AppendedMessage> {
  const { host } = context
  if (!isCharged) mustBeInRate(link, host.clock.now())
  const chat = { hash: link.hash, jid: chatOf(link, visitor), hasFiles: given.files !== undefined }
  const replaced = await host.engine.read((tx) => readBranchPost(tx, chat, message, given.id))
  const repeats = await repeatFiles(host, replaced.files)
  const { content, content_type, topic } = replaced.message
  const files = given.files ?? repeats
  const post = { ...given, content, content_type, topic, branch: replaced.branch, files }
  let isKept = false
  try {
    const appended = await appendCharged(context, request, link, { post, isCharged })
    isKept = appended.id === post.id
    return appended
  } catch (error) {
    isKept = isUnclear(error)
    throw error
  } finally {
    if (repeats && host.layout && !isKept) await removeMessageFiles(host.layout, repeats)
  }
}

/** Errors of appends whose message may be stored all the same. */
const unclear = new WeakSet<Error>()

function isUnclear(error: unknown): boolean {
  return error instanceof Error && unclear.has(error)
}

async function appendCharged(
  { host, lane }: LinkPostContext,
  request: LinkRequest,
  link: CachedLink,
  { post, isCharged }: { readonly post: LinkPost; readonly isCharged: boolean },
): Promise<AppendedMessage> {
  const contextBytes = Buffer.byteLength(post.client_context ?? '')
  const byteLength = post.content.byteLength + contextBytes + fileBytes(post.files)
  try {
    if (isCharged) link.storage.reserve(byteLength)
    else chargeLink(link, byteLength, host.clock.now())
  } catch (error) {
    // A repeat of a stored message is answered even when the link is over its limits.
    const repeated = await findRepeated(host, post)
    if (!repeated) throw error
    return repeated
  }
  let result: AppendResult | undefined
  try {
    result = await lane.push(post)
  } catch (error) {
    const isRefused = error instanceof Refusal && error.code !== 'unavailable'
    if (error instanceof Error && !isRefused) unclear.add(error)
    throw error
  } finally {
    if (result !== 'appended' && isCharged) link.storage.release(byteLength)
    else if (result !== 'appended') refundLink(link, byteLength)
  }
  if (result === 'appended') {
    traceAccepted(host, request, link, post.id)
    return post
  }
  if (typeof result === 'object') return result.repeated
  if (result === 'gone') return refuseMissingMessage()
  if (result === 'taken') refuse('conflict', 'there is a topic with this name', 'a branch is a new topic')
  if (result === 'differs')
    refuse('unprocessable', 'this Idempotency-Key was used with another body', 'use a new key for a new message')
  throw NO_LINK
}

function fileBytes(files: MessageFiles | undefined): number {
  return files?.stored.reduce((sum, { size }) => sum + size, 0) ?? 0
}

/** `started` is of the monotonic clock. */
export function traceAccepted(
  { tracer, clock }: InstanceHost,
  { started, path }: { readonly started: number; readonly path: Pick<LinkRequest['path'], 'kind'> },
  { jid }: CachedLink,
  id: string,
): void {
  if (!tracer) return
  const endMs = clock.now()
  tracer.accepted({ id, jid, via: `POST /${path.kind}`, startMs: endMs - (performance.now() - started), endMs })
}

async function findRepeated({ engine }: InstanceHost, post: LinkPost): Promise<AppendedMessage | undefined> {
  if (!post.key) return undefined
  const key = await engine.read((tx) => findUsedKey(tx, post))
  if (!key || !Buffer.from(key.digest).equals(post.key.digest)) return undefined
  return { id: key.message_id, created_at: key.created_at }
}

/** The signed-in person, or a pseudonym of link and address. See docs/decisions.md#sender-of-a-link. */
export async function senderOf(host: InstanceHost, request: LinkRequest, link: CachedLink): Promise<string> {
  // Only the owner gets this far; at `/openai/` with a bearer, whatever session the cookie is of.
  if (link.owner) return link.owner.sub
  const visitor = await findVisitor(host, request)
  if (visitor) return visitor.caller.sub
  return anonymousSender(link.key, request.client ?? '')
}

const KEY = /^[\x21-\x7e]{1,255}$/

function hasKey(request: LinkRequest, link: CachedLink): boolean {
  return request.incoming.headers['idempotency-key'] !== undefined || deliveryOf(request, link).id !== undefined
}

/** The sender's delivery id, which a redelivery repeats. X-GitHub-Delivery counts only where GitHub signs the posts. */
function deliveryOf(request: LinkRequest, { verify }: CachedLink): { kind: string; id: string | undefined } {
  const header = (name: string): string | undefined => request.header(name)
  const github = verify?.scheme.kind === 'github' ? header('x-github-delivery') : undefined
  return github === undefined
    ? { kind: 'webhook', id: header(`${standardPrefix(header)}-id`) }
    : { kind: 'github', id: github }
}

/** GitHub names the event only in a header; the prompt includes it because the body often does not. */
function eventOf({ incoming: { headers } }: LinkRequest, { verify }: CachedLink): string | null {
  const event = verify?.scheme.kind === 'github' ? headers['x-github-event'] : undefined
  return typeof event === 'string' && /^[a-z0-9_.-]{1,64}$/i.test(event) ? event : null
}

function keyOfPost(request: LinkRequest, link: CachedLink, bodyHash: () => Uint8Array): LinkPostKey | undefined {
  const { headers, rawHeaders } = request.incoming
  const { kind } = request.path
  const key = headers['idempotency-key']
  if (key !== undefined) {
    const isTwice = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === 'idempotency-key').length > 1
    if (isTwice || typeof key !== 'string' || !KEY.test(key))
      refuse('invalid', 'Idempotency-Key must be one value of 1 to 255 printable characters without spaces')
    return { text: `key ${key}`, digest: digestOf(kind, bodyHash()), isStrict: true }
  }
  const delivery = deliveryOf(request, link)
  if (delivery.id === undefined || !KEY.test(delivery.id)) return undefined
  // The digest is part of the key: the same delivery id with another body is another message.
  const digest = digestOf(kind, bodyHash())
  return { text: `${delivery.kind} ${Buffer.from(digest).toString('hex')} ${delivery.id}`, digest, isStrict: false }
}

/** Another visitor's message with the same key is another message. */
function ofVisitorOnly(visitor: string | null, key: LinkPostKey | undefined): LinkPostKey | undefined {
  return visitor === null || key === undefined ? key : { ...key, text: `${visitor} ${key.text}` }
}

/** Chat posts are hashed twice: the same body and key at the hook URL has another response. */
function digestOf(kind: string, digest: Uint8Array): Uint8Array {
  return kind === 'hook' ? digest : hash('sha256', digest, 'buffer')
}
