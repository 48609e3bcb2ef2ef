// What a browser or a webhook talks to: chat and hook links.
import { work } from '../../core/ingest.ts'
import { readTrustedProxies, type Trusts } from '../../lib/client-address.ts'
import { openAnswerLog } from '../../lib/log.ts'
import { proxydRoutesResource } from '../../resources/proxyd-routes.ts'
import { openWidgetScript } from '../../web/chat/widget-script.ts'
import { daemon } from '../daemon.ts'
import { passTo } from '../hop.ts'
import { DOOR_SETTINGS, INSTANCE_SETTINGS, LINK_SETTINGS } from '../settings.ts'
import { Budget } from './body.ts'
import { openDoor } from './door.ts'
import { LinkBook } from './link-book.ts'
import { lazyMcp } from './mcp.ts'
import { Streams } from './streams.ts'

/** Of bodies that are read and not yet written, together. */
const BODIES_MAX = 64 * 1024 * 1024

const MINUTE_MS = 60_000

/** Where a front door of this instance is, when it is another process on this machine. */
const isNear = readTrustedProxies('127.0.0.0/8, ::1') ?? (() => false)

export const webd = daemon({
  name: 'webd',
  about: 'answers the links that are handed out',
  settings: { ...LINK_SETTINGS, ...DOOR_SETTINGS, ASSISTANT_NAME: INSTANCE_SETTINGS.ASSISTANT_NAME },
  start: ({ host, app, log, metrics, peers, direct, defer, stopping, fatal }, settings) => {
    const { engine, signals } = host
    const lane = engine.openLane(work, {
      onTidied: ({ keys }) => {
        // Nobody is concerned by what was tidied of nothing.
        if (keys?.length !== 0) signals.emit(keys)
      },
      onFatal: fatal,
    })
    defer(() => lane.close())
    const quotas = { chat: settings.LINK_QUOTA, folder: settings.FOLDER_QUOTA }
    const book = new LinkBook(host, {
      rates: {
        web: { count: settings.WEBHOOK_RATE_WEB, windowMs: MINUTE_MS },
        hook: { count: settings.WEBHOOK_RATE_HOOK, windowMs: MINUTE_MS },
      },
      quotas,
      onFull: ({ scope, name, bytes, quota, setting }) =>
        log.warn(
          { [scope]: name, bytes, quota },
          `messages are refused because the storage is full: raise ${setting} in .env and restart svc`,
        ),
    })
    defer(() => book.close())
    const streams = new Streams(host, { all: settings.STREAMS_MAX, perLink: settings.STREAMS_PER_LINK })
    defer(() => streams.close())
    stopping.addEventListener('abort', () => streams.close())
    const answers = openAnswerLog(log)
    defer(() => answers.flush())
    const office = { host, book, lane, quotas, budget: new Budget(BODIES_MAX), bodyMax: settings.TOKEN_BODY_MAX }
    const onError = (error: unknown, tool: string): void => log.error({ tool, err: error }, 'internal error')
    const mcp = lazyMcp({ office, streams, onError })
    defer(() => mcp.close())
    app.all('/mcp', mcp.atAccount)
    const trusts: Trusts = (address) => isNear(address) || (settings.TRUSTED_PROXIES?.(address) ?? false)
    // The front door's own rows: it alone serves them, and webd passes on what it is asked about them.
    for (const path of [proxydRoutesResource.path, `${proxydRoutesResource.path}/*`])
      app.all(path, (c) => passTo(peers('proxyd'), c, trusts))
    direct(
      openDoor({
        ...office,
        streams,
        name: settings.ASSISTANT_NAME,
        widgetScript: openWidgetScript(settings.ASSISTANT_NAME),
        trusts,
        mcp: mcp.atLink,
        record: ({ request, shownPath, started, id, client, caller }, status, reason) => {
          const ms = performance.now() - started
          metrics.add(request.method ?? '', status, ms)
          answers.write({
            method: request.method ?? '',
            path: shownPath,
            status,
            ms,
            request: id,
            caller,
            remote: client,
            reason,
          })
        },
        onIncident: (error, { id }) => log.error({ request: id, err: error }, 'internal error'),
      }),
    )
  },
})
