// One connection of Socket Mode. The package opens it and watches its pings; envelopes are read here, because the package lets an
// envelope of an odd shape end the process, and closes a connection that Slack replaces before the next one is open.
import { LogLevel, SocketModeClient } from '@slack/socket-mode'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import { type ConnectorContext, PlatformError } from '../process/port.ts'
import { checked, SILENT, webOptions } from './slack-api.ts'

/** Values of one envelope: blocks of long messages have many. */
const VALUES_MAX = 200_000
const OPEN_MS = 30_000
const CLIENT_PING_MS = 15_000
const SERVER_PING_MS = 45_000

export interface SlackEnvelope {
  readonly type: unknown
  readonly payload: unknown
  /** Tells Slack that it arrived. Without effect after the connection has ended: Slack delivers it again. */
  ack(): void
}

/** Why a connection ends: it broke, Slack replaces it, or Socket Mode was switched off. */
export type SocketEnd = 'closed' | 'replaced' | 'disabled'

export interface SlackSocket {
  readonly ended: Promise<SocketEnd>
  isOpen(): boolean
  close(): void
}

export type SocketContext = Pick<ConnectorContext, 'secrets' | 'apiUrl' | 'log' | 'guard'>

/** Resolves when Slack has said hello. */
export async function openSlackSocket(
  context: SocketContext,
  onEnvelope: (envelope: SlackEnvelope) => void,
): Promise<SlackSocket> {
  const ended = Promise.withResolvers<SocketEnd>()
  const client = new SocketModeClient({
    appToken: context.secrets.app_token ?? '',
    autoReconnectEnabled: false,
    clientPingTimeout: CLIENT_PING_MS,
    serverPingTimeout: SERVER_PING_MS,
    clientOptions: webOptions(context),
    logger: { ...SILENT, getLevel: () => LogLevel.ERROR },
  })
  const close = (): void => void client.disconnect().catch(() => undefined)
  client.once('disconnected', () => ended.resolve('closed'))
  const [readHello] = client.listeners('ws_message')
  client.removeAllListeners('ws_message')
  client.on(
    'ws_message',
    context.guard((data: unknown) => {
      const message = typeof data === 'string' ? tryParseJson(data, VALUES_MAX) : undefined
      if (!isObject(message)) return context.log.warn('a message of Slack cannot be read')
      const { type, reason, payload, envelope_id: id } = message
      if (type === 'hello') readHello?.(data, false)
      else if (type === 'disconnect') ended.resolve(reason === 'link_disabled' ? 'disabled' : 'replaced')
      else if (typeof id === 'string') onEnvelope({ type, payload, ack: () => send(client, { envelope_id: id }) })
    }),
  )
  const timeout = AbortSignal.timeout(OPEN_MS)
  const isLate = new Promise<never>((_, reject) =>
    timeout.addEventListener('abort', () => reject(new PlatformError('unavailable', 'Slack does not answer'))),
  )
  try {
    await checked(Promise.race([client.start(), isLate]))
  } catch (error) {
    close()
    // The package rejects without an error if the connection breaks.
    throw error ?? new PlatformError('unavailable', 'Slack closed the connection')
  }
  return { ended: ended.promise, isOpen: () => client.websocket?.isActive() ?? false, close }
}

function send({ websocket }: SocketModeClient, message: object): void {
  if (websocket?.isActive()) websocket.send(JSON.stringify(message), () => undefined)
}
