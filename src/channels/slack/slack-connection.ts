// Keeps a connection of Socket Mode open. Slack replaces connections every few hours: the next one is opened before the last is closed.
import { setTimeout as pause } from 'node:timers/promises'
import { type ConnectorContext, PlatformError } from '../process/port.ts'
import { isSlackTokenFault, type SlackCall, SlackRefusal, textOf } from './slack-api.ts'
import { readEnvelope, type SlackBot, type SlackContext } from './slack-events.ts'
import type { SlackGaps } from './slack-gaps.ts'
import type { SlackIntake } from './slack-intake.ts'
import { openSlackSocket, type SlackEnvelope, type SlackSocket, type SocketEnd } from './slack-socket.ts'

const PAUSE_MS = 1000
const PAUSE_MAX_MS = 30_000
/** A token that is refused may be a mistake of Slack. */
const REFUSED_PAUSE_MS = 60_000
/** No pause that Slack asks for may stop the bot for longer. */
const LIMITED_MAX_MS = 3_600_000
/** A connection that ends sooner counts as a failure. */
const SHORT_MS = 10_000
/** How long a connection that was replaced may confirm events. */
const LINGER_MS = 10_000

export interface SlackConnectionOptions {
  readonly context: ConnectorContext
  readonly call: SlackCall
  readonly intake: SlackIntake
  readonly gaps: SlackGaps
}

export class SlackConnection {
  readonly #options: SlackConnectionOptions
  readonly #sockets = new Set<SlackSocket>()
  #bot: SlackBot | undefined
  #current: SlackSocket | undefined
  #restarted = Promise.withResolvers<'restarted'>()

  constructor(options: SlackConnectionOptions) {
    this.#options = options
  }

  /** Undefined until Slack has said who the account is. */
  get bot(): SlackBot | undefined {
    return this.#bot
  }

  /** After a token was refused: asks for the account again before it goes on. */
  restart(): void {
    this.#restarted.resolve('restarted')
  }

  async run(): Promise<void> {
    const { signal, now, setHealth } = this.#options.context
    const stopped = new Promise<'stopped'>((resolve) => signal.addEventListener('abort', () => resolve('stopped')))
    let failures = 0
    while (!signal.aborted) {
      let connectedAt: number | undefined
      try {
        const socket = await this.#connect()
        connectedAt = now()
        setHealth('ok')
        const end = await Promise.race([socket.ended, stopped, this.#restarted.promise])
        if (end === 'stopped') break
        this.#end(socket, end)
        if (now() - connectedAt < SHORT_MS) throw new PlatformError('unavailable', 'Slack closed the connection')
        failures = 0
      } catch (error) {
        if (signal.aborted) break
        if (!(error instanceof PlatformError)) throw error
        await waitAfterFault(this.#options.context, error, failures++)
      }
    }
    for (const socket of this.#sockets) socket.close()
  }

  async #connect(): Promise<SlackSocket> {
    const { context, call, intake, gaps } = this.#options
    this.#bot ??= await identifySlackBot(call)
    const slack: SlackContext = { bot: this.#bot, areBotsHeard: context.settings.bots === 'allow' }
    const isGap = !this.#current?.isOpen()
    // Events may arrive together with the greeting.
    if (isGap) gaps.begin()
    const socket = await openSlackSocket(context, (envelope) => this.#receive(slack, envelope)).catch((error) => {
      throw isSlackTokenFault(error) ? new PlatformError('refused', 'Slack does not accept the app-level token') : error
    })
    if (!isGap && !this.#current?.isOpen()) gaps.begin()
    this.#sockets.add(socket)
    this.#current = socket
    const reading = intake.readGaps(slack)
    reading.catch(context.guard((error: unknown) => this.#rethrow(error)))
    return socket
  }

  /** Slack gets its confirmation when svc has all events of an envelope. */
  #receive(slack: SlackContext, { type, payload, ack }: SlackEnvelope): void {
    const { context, intake } = this.#options
    const stored: Promise<void>[] = []
    for (const event of readEnvelope(slack, type, payload)) {
      const each = intake.receive(slack, event)
      // Too many events wait: this one comes again.
      if (each === undefined) return
      stored.push(each)
    }
    Promise.all(stored)
      .then(ack)
      .catch(context.guard((error: unknown) => this.#rethrow(error)))
  }

  /** The process stops: what is not stored stays at Slack. */
  #rethrow(error: unknown): void {
    if (!this.#options.context.signal.aborted) throw error
  }

  #end(socket: SlackSocket, end: SocketEnd | 'restarted'): void {
    const { guard, setHealth } = this.#options.context
    const close = guard(() => {
      this.#sockets.delete(socket)
      socket.close()
    })
    if (end === 'replaced') {
      setTimeout(close, LINGER_MS).unref()
      return
    }
    close()
    this.#current = undefined
    if (end === 'closed') {
      setHealth('connecting', 'Slack closed the connection')
      return
    }
    this.#restarted = Promise.withResolvers()
    this.#bot = undefined
    if (end === 'disabled') throw new SlackRefusal('refused', 'link_disabled', 'Socket Mode of the app is switched off')
  }
}

export async function identifySlackBot(call: SlackCall): Promise<SlackBot> {
  const me = await call('auth.test').catch((error) => {
    throw isSlackTokenFault(error) ? new PlatformError('refused', 'Slack does not accept the token of the bot') : error
  })
  const [team, user] = [textOf(me.team_id), textOf(me.user_id)]
  if (team === undefined || user === undefined) throw new PlatformError('unavailable', 'Slack does not name the bot')
  return { team, user, bot: textOf(me.bot_id), name: textOf(me.user) ?? user }
}

/** Reports why, and waits before another attempt. */
export async function waitAfterFault(
  { setHealth, signal }: Pick<ConnectorContext, 'setHealth' | 'signal'>,
  error: PlatformError,
  failures: number,
): Promise<void> {
  const isRefused = error.kind === 'refused'
  setHealth(isRefused ? 'refused' : 'connecting', error.message)
  const limitedMs = Math.min(LIMITED_MAX_MS, (error.retryAfterS ?? 0) * 1000)
  const ms = isRefused
    ? REFUSED_PAUSE_MS
    : Math.max(limitedMs, Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(failures, 6)))
  await pause(ms, undefined, { signal }).catch(() => undefined)
}
