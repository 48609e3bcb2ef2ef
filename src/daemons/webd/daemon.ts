// webd: serves chat and hook links, and the MCP endpoint of accounts.
import { CALLS_LIMITED, CallRateLimiters } from '../../core/access/call-rate-limit.ts'
import { createLinkPostHandler } from '../../core/messages/link-inbound.ts'
import { readTrustedProxies, type TrustedProxyCheck } from '../../lib/http/client-address.ts'
import { openRequestLog } from '../../lib/log/log.ts'
import { defineGauge, reading } from '../../lib/log/metric-registry.ts'
import type { Rate } from '../../lib/token-bucket.ts'
import { proxydRoutesResource } from '../../resources/proxyd-routes.ts'
import { openLane } from '../../store/lanes/transaction-lane.ts'
import { AgentLinkFiles, commonLinkFiles } from '../../web/chat/files.ts'
import { defineDaemon } from '../daemon.ts'
import { passToPeer } from '../http/forwarded-headers.ts'
import { mountLine } from '../http/line-routes.ts'
import { LINK_SETTINGS, TRUSTED_PROXY_SETTINGS } from '../settings.ts'
import { LinkCache } from './link-cache.ts'
import { openLinkRoutes } from './link-routes.ts'
import { lazyMcp } from './mcp/endpoints.ts'
import { openOpenaiRoutes } from './openai/routes.ts'
import { BodyBudget } from './request-body.ts'
import { Streams } from './streams.ts'
import { UploadSlots } from './upload-slots.ts'

/** Memory limit of all request bodies that are not stored yet. */
const BODY_BUDGET_BYTES = 64 * 1024 * 1024

const MINUTE_MS = 60_000

export const STREAMS_OPEN = defineGauge('svc_streams_open', 'Open event streams')

/** proxyd may be another process on this machine. */
const isLoopback = readTrustedProxies('127.0.0.0/8, ::1') ?? (() => false)

export const webd = defineDaemon({
  name: 'webd',
  about: 'serves chat and hook links',
  settings: { ...LINK_SETTINGS, ...TRUSTED_PROXY_SETTINGS },
  metrics: [CALLS_LIMITED],
  start: (context, settings) => {
    const { host, app, log, metrics, peers, setRawHandler, defer, stopping } = context
    const { engine, signals, preCommitSignals } = host
    // Wakes the router before the commit, so that routing shares the transaction, and after it if that was too late.
    const lane = openLane(engine, createLinkPostHandler(), {
      onDeferredStart: () => preCommitSignals.emit([], ['arrivals']),
      onDeferredCommit: ({ keys }, wasAnnounced) => {
        // A router in another process hears of commits only.
        const isRouted = wasAnnounced && peers.isLocal('routd')
        if (keys?.length !== 0) signals.emit(keys, isRouted ? [] : ['arrivals'])
      },
      onFault: host.faults.handler('connection'),
    })
    defer(() => lane.close())
    mountLine(context)
    // Read at each use: these settings change while the process runs.
    const quotas = {
      get chat() {
        return settings.LINK_QUOTA
      },
      get folder() {
        return settings.FOLDER_QUOTA
      },
    }
    const links = new LinkCache(host, {
      rates: {
        web: perMinute(() => settings.WEBHOOK_RATE_WEB),
        hook: perMinute(() => settings.WEBHOOK_RATE_HOOK),
      },
      quotas,
      onQuotaExceeded: ({ scope, name, bytes, quota, setting }) =>
        log.warn(
          { [scope]: name, bytes, quota },
          `storage is full, messages are refused: raise it with ${host.showCommands(`svc settings ${host.instance} set ${setting} <bytes>`)}`,
        ),
    })
    defer(() => links.close())
    const streams = new Streams(host, {
      get all() {
        return settings.STREAMS_MAX
      },
      get perLink() {
        return settings.STREAMS_PER_LINK
      },
    })
    defer(() => streams.close())
    defer(host.metrics.addSource(() => [reading(STREAMS_OPEN, {}, streams.count)]))
    stopping.addEventListener(
      'abort',
      host.faults.guard('stream', () => streams.close()),
    )
    const requestLog = openRequestLog(log)
    defer(() => requestLog.flush())
    const posting = {
      host,
      links,
      lane,
      quotas,
      budget: new BodyBudget(BODY_BUDGET_BYTES),
      uploads: new UploadSlots(),
      bodyMax: () => settings.TOKEN_BODY_MAX,
      attachmentMax: () => settings.ATTACHMENT_MAX,
    }
    const openai = openOpenaiRoutes({ ...posting, streams, largeBodies: new BodyBudget(BODY_BUDGET_BYTES) })
    const onError = (error: unknown, tool: string): void => {
      host.faults.count('tool')
      log.error({ tool, err: error }, 'internal error')
    }
    const mcp = lazyMcp({ posting, streams, onError })
    defer(() => mcp.close())
    app.all('/mcp', mcp.atAccount)
    const isTrustedProxy: TrustedProxyCheck = (address) =>
      isLoopback(address) || (settings.TRUSTED_PROXIES?.(address) ?? false)
    // See docs/decisions.md#proxyd-routes-at-webd.
    for (const path of [proxydRoutesResource.path, `${proxydRoutesResource.path}/*`])
      app.all(path, (c) => passToPeer(peers('proxyd'), c, isTrustedProxy))
    setRawHandler(
      openLinkRoutes({
        ...posting,
        streams,
        topicCalls: new CallRateLimiters(() => host.limits.toolCallsPerSecond, host.clock, host.metrics),
        staticFiles: commonLinkFiles(),
        agentFiles: new AgentLinkFiles(),
        isTrustedProxy,
        mcp: mcp.atLink,
        openai,
        logResponse: ({ incoming, shownPath: path, started, id: request, client: remote, caller }, status, reason) => {
          const { method = '' } = incoming
          const ms = performance.now() - started
          metrics.add(method, status, ms)
          requestLog.write({ method, path, status, ms, request, caller, remote, reason })
        },
        onIncident: (error, { id }) => log.error({ request: id, err: error }, 'internal error'),
        onFault: host.faults.handler('connection'),
      }),
    )
  },
})

function perMinute(count: () => number): Rate {
  return {
    get count() {
      return count()
    },
    windowMs: MINUTE_MS,
  }
}
