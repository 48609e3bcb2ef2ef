// The port of platforms whose adapter svc starts itself: each is a folder below src/channels with a connector.ts. A connector runs
// in a process of its own and knows its platform only; this folder talks to svc, keeps keys, splits texts and retries. See README.md.
import type { Log } from '../../lib/log/log.ts'
import type { AdapterStore } from './adapter-store.ts'

/** The exports of `connector.ts` of a platform. */
export interface ConnectorModule {
  openConnector(context: ConnectorContext): Promise<Connector>
  /** Asks the platform who the account is, without receiving anything. Throws a `PlatformError` if it is not accepted. */
  checkAccount(account: AccountAccess): Promise<AccountCheck>
}

export interface AccountAccess {
  /** What operators set; names and values are checked when they are saved. */
  readonly settings: Readonly<Record<string, string>>
  /** Tokens and passwords, by name. */
  readonly secrets: Readonly<Record<string, string>>
  /** Base URL in place of the platform's own. */
  readonly apiUrl?: string | undefined
  readonly signal: AbortSignal
}

export interface AccountCheck {
  /** Name of the bot or the address, as people see it. */
  readonly name: string
  /** Opens the dialog that adds the bot to a chat, with the rights that it needs. */
  readonly inviteUrl?: string | undefined
  /** Steps that remain to be done at the platform. */
  readonly steps?: readonly string[] | undefined
}

export interface ConnectorContext extends AccountAccess {
  /** `telegram`, or `telegram-work` for a second account: the part of its JIDs before the colon. */
  readonly account: string
  /** Where the platform reaches `webhook`: `https://<WEB_HOST>/channels/<account>/`. */
  readonly webhookUrl?: string | undefined
  /** Survives restarts; each write is on the disk when it returns. */
  readonly state: AdapterStore
  readonly log: Log
  now(): number
  /**
   * Resolves when svc has stored the event, has it already, or refuses it for good: only then may the platform be told that it
   * arrived. Waits as long as svc cannot be reached. Rejected only when the process stops.
   */
  receive(event: InboundEvent): Promise<EventReceipt>
  setHealth(status: HealthStatus, detail?: string): void
  /** For callbacks of timers and sockets: an exception ends the process, which is started again. */
  guard<A extends readonly unknown[]>(callback: (...args: A) => unknown): (...args: A) => void
}

export type HealthStatus = 'ok' | 'connecting' | 'stale' | 'login_needed' | 'refused'

/** Members of `POST /v1/messages`; see docs/channels.md. */
export interface InboundEvent {
  /** Of the chat, such as `telegram:group/42`. */
  readonly chat_jid: string
  readonly content?: string | undefined
  /** The platform's own id: a repeat is stored once. */
  readonly id?: string | undefined
  readonly sender?: string | undefined
  readonly sender_name?: string | undefined
  /** Seconds since 1970. */
  readonly timestamp?: number | undefined
  readonly reply_to?: string | undefined
  readonly reply_to_text?: string | undefined
  readonly reply_to_sender?: string | undefined
  readonly forwarded_from?: string | undefined
  readonly topic?: string | undefined
  readonly verb?: string | undefined
  /** The id of the button that a person pressed; `reply_to` names the message, and `verb` is `action`. */
  readonly action?: string | undefined
  readonly reaction?: string | undefined
  readonly reaction_removed?: boolean | undefined
  /** The id of the message that this event changes or removes. */
  readonly edits?: string | undefined
  readonly deletes?: string | undefined
  readonly is_group?: boolean | undefined
  readonly is_from_me?: boolean | undefined
  readonly chat_name?: string | undefined
  readonly attachments?: readonly InboundAttachment[] | undefined
}

export interface InboundAttachment {
  readonly mime?: string | undefined
  readonly filename?: string | undefined
  /** Where the file is, if it is too large to send along. */
  readonly url?: string | undefined
  readonly data?: Uint8Array | undefined
}

export type EventReceipt = 'stored' | 'duplicate' | 'ignored' | 'refused'

/** The chat that a message is sent to, and where in it. */
export interface Place {
  /** The part of the JID after the colon, such as `group/42`. */
  readonly chat: string
  readonly threadId?: string | undefined
}

export interface OutgoingPart extends Place {
  readonly replyTo?: string | undefined
  readonly agentName?: string | undefined
  /** The same for every attempt at this part: 32 hexadecimal digits. */
  readonly nonce: string
}

export interface OutgoingTextPart extends OutgoingPart {
  /** Markdown of at most `limits.text`. */
  readonly text: string
  /** Below the text, for connectors with `hasButtons`. An edit of the message removes them. */
  readonly buttons?: readonly Button[] | undefined
}

export interface Button {
  /** Up to 40 ASCII letters, digits, "-" and "_": arrives again as `action` when a person presses it. */
  readonly id: string
  /** Up to 40 characters. */
  readonly label: string
  readonly style?: 'primary' | 'danger' | undefined
}

export interface OutgoingFilePart extends OutgoingPart {
  readonly path: string
  readonly filename: string
  readonly mime?: string | undefined
  /** At most `limits.caption`. */
  readonly caption?: string | undefined
}

export interface TargetMessage extends Place {
  readonly id: string
}

export interface PlatformHistoryMessage {
  readonly id: string
  readonly sender: string
  readonly sender_name?: string | undefined
  readonly content: string
  /** Seconds since 1970, or RFC 3339. */
  readonly timestamp: number | string
  readonly topic?: string | undefined
  readonly reply_to?: string | undefined
  readonly is_from_me?: boolean | undefined
}

/** A missing action is one that the platform does not have. Those that send return the id of the message, if there is one. */
export interface ConnectorActions {
  sendText(out: OutgoingTextPart): Promise<string | undefined>
  sendFile(out: OutgoingFilePart): Promise<string | undefined>
  sendVoice(out: OutgoingFilePart): Promise<string | undefined>
  /** A public post with files, on platforms that have feeds. */
  post(out: OutgoingTextPart & { readonly files: readonly LocalFile[] }): Promise<string | undefined>
  /** A comment follows as a text of its own. */
  forward(out: OutgoingPart & { readonly source: TargetMessage }): Promise<string | undefined>
  quote(out: OutgoingTextPart & { readonly source: TargetMessage }): Promise<string | undefined>
  repost(out: OutgoingPart & { readonly source: TargetMessage }): Promise<string | undefined>
  /** An empty reaction is the platform's default. */
  like(target: TargetMessage & { readonly reaction: string }): Promise<void>
  dislike(target: TargetMessage): Promise<void>
  edit(target: TargetMessage & { readonly text: string }): Promise<void>
  delete(target: TargetMessage): Promise<void>
  pin(target: TargetMessage): Promise<void>
  unpin(target: TargetMessage): Promise<void>
  unpinAll(place: Place): Promise<void>
  panePrompts(place: Place & { readonly prompts: readonly { title: string; message: string }[] }): Promise<void>
  paneTitle(place: Place & { readonly title: string }): Promise<void>
  history(place: Place & { readonly limit: number; readonly before?: string | undefined }): Promise<{
    readonly messages: readonly PlatformHistoryMessage[]
    readonly cap?: string | undefined
  }>
  typing(place: Place & { readonly on: boolean }): Promise<void>
}

export interface LocalFile {
  readonly path: string
  readonly filename: string
}

/** What the platform sent to `https://<WEB_HOST>/channels/<account>/…`. Anyone can send there: check it first. */
export interface WebhookRequest {
  readonly method: string
  /** After the account, percent-encoded as it was sent: at least `/`. */
  readonly path: string
  /** Without the question mark. */
  readonly query: string
  /** By lower-case names: only `content-type`, `user-agent` and those that start with `x-`. */
  readonly headers: Readonly<Record<string, string>>
  /** As it was sent, for signatures. */
  readonly body: Uint8Array
}

export interface WebhookResponse {
  readonly status: number
  /** Only `content-type` (JSON, XML or plain text), `retry-after` and those that start with `x-` reach the platform. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly body?: string | undefined
}

export interface Connector {
  readonly limits: {
    /** Of one message, as `measure` counts it; longer texts are sent in parts. */
    readonly text: number
    readonly caption?: number | undefined
    readonly fileBytes?: number | undefined
    /** UTF-16 units, if it is absent. */
    measure?(text: string): number
  }
  readonly actions: Partial<ConnectorActions>
  readonly hasButtons?: boolean | undefined
  /**
   * How often the text of one message may be changed while an answer is being written; absent: people see whole answers only. Such a
   * draft is sent with `sendText`, changed with `edit`, and removed with `delete`.
   */
  readonly draftEveryMs?: number | ((place: Place) => number) | undefined
  /**
   * What became of an attempt that ended without an answer. `safe`: the platform knows a repeat by its nonce. A function looks for
   * the message: its id, or undefined if it was certainly not sent, or a repeat is safe as the first attempt began a short time ago.
   * Absent: the result stays unknown, and it is never sent again.
   */
  readonly repeats?:
    | 'safe'
    | ((out: OutgoingPart, attempt: { readonly beganAt: number }) => Promise<string | undefined>)
    | undefined
  /**
   * Answers a request of the platform. It has reached svc when `receive` has resolved: answer 2xx only then. After an exception the
   * platform gets 503, so that it delivers again. Compare signatures with `isSameSecret`.
   */
  webhook?(request: WebhookRequest): Promise<WebhookResponse>
  close(): Promise<void>
}

/**
 * Why the platform did not do something. `refused`: never; `rate_limited` and `unavailable`: not now, and nothing was sent;
 * `unclear`: the connection broke, and it may have been done; `unsupported`: this platform or chat cannot.
 */
export class PlatformError extends Error {
  readonly kind: 'refused' | 'rate_limited' | 'unavailable' | 'unclear' | 'unsupported'
  /** Seconds until another attempt; or an alternative that names a tool. */
  readonly retryAfterS: number | undefined
  readonly hint: string | undefined

  constructor(
    kind: PlatformError['kind'],
    message: string,
    { retryAfterS, hint }: { readonly retryAfterS?: number | undefined; readonly hint?: string | undefined } = {},
  ) {
    super(message)
    this.name = 'PlatformError'
    this.kind = kind
    this.retryAfterS = retryAfterS
    this.hint = hint
  }
}
