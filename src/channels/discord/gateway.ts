// The connection to Discord's gateway. The package sends heartbeats, resumes sessions and connects again; this file decides how soon, and
// which session a new process resumes: the sequence that it keeps is that of the last event that svc has.
import { setTimeout as pause } from 'node:timers/promises'
import type { REST } from '@discordjs/rest'
import { type SessionInfo, WebSocketManager, WebSocketShardEvents } from '@discordjs/ws'
import { type ConnectorContext, PlatformError } from '../process/port.ts'
import { type DiscordApi, isDiscordTokenFault, TOKEN_FAULT } from './discord-api.ts'
import { numberOf, type Payload, payloadOf } from './payload.ts'

/** Guilds, messages and reactions of guilds and direct chats, and the content of messages. */
const INTENTS = (1 << 0) | (1 << 9) | (1 << 10) | (1 << 12) | (1 << 13) | (1 << 15)
/** Keeps the session, unlike 1000. */
const RESUMABLE_CLOSE = 4200
const PAUSE_MAX_MS = 30_000
const PAUSE_MS = 1000
const REFUSED_PAUSE_MS = 60_000
/** A session ends soon after, so that its address is no longer tried. */
const RESUME_MS = 60_000
const CLOSE_MS = 1000
/** A connection that ends sooner counts as a failure: Discord limits how often a bot may start a session. */
const SHORT_MS = 10_000

/** Closing codes after which another attempt is useless until the operator does something. */
const REFUSALS: Readonly<Record<number, string>> = {
  4004: TOKEN_FAULT,
  4010: 'Discord does not accept the shard',
  4011: 'the bot is in too many servers for one connection (2500)',
  4012: 'Discord does not support this version of the gateway any more',
  4013: 'Discord does not accept the intents',
  4014: 'turn on "Message Content Intent" at discord.com/developers/applications, "Bot", "Privileged Gateway Intents"',
}

export interface GatewaySession {
  readonly id: string
  readonly url: string
  readonly sequence: number
}

export interface GatewayDispatch {
  readonly type: string
  readonly data: Payload
  readonly session: GatewaySession
}

export interface GatewayListener {
  /** The session to resume. */
  session(): GatewaySession | undefined
  /** A session started anew: events of before are lost. Called before its events. */
  onNewSession(session: GatewaySession): void
  /** In order; an event may come again. */
  onDispatch(dispatch: GatewayDispatch): void
  /** Resolves when there is room for more events. */
  ready(): Promise<void>
}

/** Connects until the process stops. */
export async function runGateway(
  context: ConnectorContext,
  api: DiscordApi,
  listener: GatewayListener,
  onOpen: (connection: GatewayConnection) => void,
): Promise<void> {
  const { signal, setHealth } = context
  for (let failures = 0; !signal.aborted; ) {
    const connection = new GatewayConnection(context, api, listener)
    onOpen(connection)
    const fault = await connection.run()
    if (connection.wasConnected) failures = 0
    await connection.close()
    if (signal.aborted) return
    if (fault === undefined) {
      await listener.ready()
      continue
    }
    const isRefused = fault.kind === 'refused'
    setHealth(isRefused ? 'refused' : 'connecting', isRefused ? fault.message : 'Discord cannot be reached')
    if (isDiscordTokenFault(fault) || !isRefused) await api.pauseAfter(fault, failures++)
    else await pause(REFUSED_PAUSE_MS, undefined, { signal }).catch(() => undefined)
  }
}

export class GatewayConnection {
  readonly #context: ConnectorContext
  readonly #api: DiscordApi
  readonly #listener: GatewayListener
  readonly #manager: WebSocketManager
  readonly #ended = Promise.withResolvers<PlatformError | undefined>()
  #session: SessionInfo | null
  #isClosed = false
  /** The package would wait for ever if it was told twice. */
  #closing: Promise<void> | undefined
  #isDown = false
  #failures = 0
  #connectedAt: number | undefined
  #unreachableSince: number | undefined
  wasConnected = false

  constructor(context: ConnectorContext, api: DiscordApi, listener: GatewayListener) {
    this.#context = context
    this.#api = api
    this.#listener = listener
    const { id, url, sequence } = listener.session() ?? {}
    this.#session =
      id === undefined || url === undefined || sequence === undefined
        ? null
        : { sessionId: id, resumeURL: url, sequence, shardId: 0, shardCount: 1 }
    this.#manager = new WebSocketManager({
      token: context.secrets.token ?? '',
      intents: INTENTS,
      shardCount: 1,
      // Nothing else of it is used.
      rest: { get: () => this.#findGateway() } as unknown as REST,
      retrieveSessionInfo: () => this.#retrieveSession(),
      updateSessionInfo: (_, session) => this.#updateSession(session),
    })
    this.#listen()
  }

  get isConnected(): boolean {
    return this.#connectedAt !== undefined
  }

  /** Resolves to why it ended for good; undefined if it was closed. */
  async run(): Promise<PlatformError | undefined> {
    this.#manager.connect().catch((error) => this.#ended.resolve(faultOf(error)))
    return this.#ended.promise
  }

  /** The session stays at Discord, for the next connection. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#isClosed = true
    this.#ended.resolve(undefined)
    const closed = Promise.resolve(this.#manager.destroy({ code: RESUMABLE_CLOSE })).catch(() => undefined)
    await Promise.race([closed, pause(CLOSE_MS)])
  }

  #listen(): void {
    const { guard, setHealth } = this.#context
    const on = this.#manager.on.bind(this.#manager)
    const connected = guard(() => {
      this.wasConnected = true
      this.#connectedAt = this.#context.now()
      if (!this.#isClosed) setHealth('ok')
    })
    on(
      WebSocketShardEvents.Hello,
      guard(() => {
        this.#isDown = false
        this.#unreachableSince = undefined
      }),
    )
    on(
      WebSocketShardEvents.Ready,
      guard(() => {
        const session = this.#current()
        if (session && !this.#isClosed) this.#listener.onNewSession(session)
        connected()
      }),
    )
    on(WebSocketShardEvents.Resumed, connected)
    on(
      WebSocketShardEvents.Closed,
      guard((code: number) => this.#onClosed(code)),
    )
    on(
      WebSocketShardEvents.SocketError,
      guard(() => {
        this.#unreachableSince ??= this.#context.now()
      }),
    )
    // The closing code says more.
    on(
      WebSocketShardEvents.Error,
      guard(() => undefined),
    )
    on(
      WebSocketShardEvents.Dispatch,
      guard((payload: unknown) => this.#onDispatch(payloadOf(payload))),
    )
  }

  #onDispatch({ t: type, s, d: data }: Payload): void {
    const [session, sequence] = [this.#current(), numberOf(s)]
    if (this.#isClosed || !session || typeof type !== 'string' || sequence === undefined) return
    this.#listener.onDispatch({ type, data: payloadOf(data), session: { ...session, sequence } })
  }

  #onClosed(code: number): void {
    if (this.#isClosed) return
    this.#isDown = true
    if (this.#connectedAt !== undefined && this.#context.now() - this.#connectedAt > SHORT_MS) this.#failures = 0
    this.#connectedAt = undefined
    this.#failures++
    const refusal = REFUSALS[code]
    if (refusal !== undefined) this.#ended.resolve(new PlatformError('refused', refusal))
    else this.#context.setHealth('connecting', 'Discord cannot be reached')
  }

  #current(): GatewaySession | undefined {
    const session = this.#session
    return session ? { id: session.sessionId, url: session.resumeURL, sequence: session.sequence } : undefined
  }

  /** The package asks for it before each attempt to connect, so that attempts wait here. */
  #retrieveSession(): SessionInfo | null | Promise<SessionInfo | null> {
    if (this.#isClosed) return new Promise(() => undefined)
    return this.#isDown ? this.#waitForSession() : this.#session
  }

  async #waitForSession(): Promise<SessionInfo | null> {
    const ms = this.#failures < 2 ? 0 : Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(this.#failures - 2, 6))
    await pause(ms, undefined, { signal: this.#context.signal, ref: false }).catch(() => undefined)
    return this.#isClosed || this.#context.signal.aborted ? new Promise(() => undefined) : this.#session
  }

  /** The package forgets the session also if it cannot connect for a moment. */
  #updateSession(session: SessionInfo | null): void {
    if (this.#isClosed) return
    if (session === null) {
      const since = this.#unreachableSince
      if (since === undefined || this.#context.now() - since > RESUME_MS) this.#session = null
    } else if (isGatewayUrl(session.resumeURL) && Number.isSafeInteger(session.sequence)) this.#session = session
  }

  async #findGateway(): Promise<unknown> {
    const found = payloadOf(await this.#api.request({ method: 'GET', path: '/gateway/bot' }))
    if (!isGatewayUrl(found.url)) throw new PlatformError('unavailable', 'Discord names no gateway')
    const limit = payloadOf(found.session_start_limit)
    return {
      url: found.url,
      shards: 1,
      session_start_limit: {
        total: 1,
        remaining: numberOf(limit.remaining) ?? 1,
        reset_after: numberOf(limit.reset_after) ?? 0,
        max_concurrency: 1,
      },
    }
  }
}

function isGatewayUrl(value: unknown): value is string {
  return typeof value === 'string' && URL.canParse(value) && ['ws:', 'wss:'].includes(new URL(value).protocol)
}

function faultOf(error: unknown): PlatformError {
  if (error instanceof PlatformError) return error
  return new PlatformError('unavailable', error instanceof Error ? error.message : 'the gateway is not available')
}
