// proxyd: forwards each request to the daemon of its path, which authorizes it. Requests to paths of rows (backends,
// redirects, published files) are authorized here.
import { isOwnPath } from '../../core/links/reserved-paths.ts'
import { resources } from '../../resources/index.ts'
import { defineDaemon } from '../daemon.ts'
import { passToPeer } from '../http/forwarded-headers.ts'
import { incomingOf } from '../http/request-middleware.ts'
import { withClientAddress } from '../http/trusted-proxies.ts'
import { DAEMON_NAMES, ROUTE_SETTINGS, TRUSTED_PROXY_SETTINGS } from '../settings.ts'
import { daemonLookup } from './daemon-paths.ts'
import { authorizeMetrics, instanceMetrics } from './instance-metrics.ts'
import { openLinkProxy } from './link-proxy.ts'
import { ROBOTS } from './pages.ts'
import { parseTarget } from './request-target.ts'
import { type DispatchContext, dispatchRequest } from './route-dispatch.ts'
import { ProxyRouteTableReader } from './route-table.ts'

export const proxyd = defineDaemon({
  name: 'proxyd',
  about: 'public entry point: forwards each request to the daemon that serves it',
  settings: { ...TRUSTED_PROXY_SETTINGS, ...ROUTE_SETTINGS },
  authorizeMetrics,
  metricsText: instanceMetrics,
  start: ({ app, host, log, metrics, peers, isSet, setRawHandler }, settings) => {
    const { TRUSTED_PROXIES: isTrustedProxy } = settings
    const findDaemon = daemonLookup(resources)
    const setElsewhere = new Set(settings.SETTINGS_SET.split(',').map((key) => key.trim()))
    const routeTable = new ProxyRouteTableReader((key) => isSet(key) || setElsewhere.has(key))
    const context: DispatchContext = { host, log, metrics, peers, isTrustedProxy, routeTable }
    setRawHandler(withClientAddress(openLinkProxy(context), isTrustedProxy))
    app.get('/robots.txt', (c) => c.text(ROBOTS))
    for (const name of DAEMON_NAMES) {
      app.get(`/openapi/${name}.json`, (c) =>
        passToPeer(peers(name), c, isTrustedProxy, new Request(new URL('/openapi.json', c.req.url), c.req.raw)),
      )
    }
    app.all('*', (c) => {
      const incoming = incomingOf(c)
      // The handler of raw requests has refused targets without a path.
      const target = incoming && parseTarget(incoming.url ?? '')
      if (!target) return c.notFound()
      const name = findDaemon(target.path.name)
      if (name !== undefined && name !== 'proxyd') return passToPeer(peers(name), c, isTrustedProxy)
      return isOwnPath(target.path.name) ? c.notFound() : dispatchRequest(context, c, incoming, target)
    })
  },
})
