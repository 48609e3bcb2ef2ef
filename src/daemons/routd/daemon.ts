// routd: routes messages, delivers to platforms, and serves routes, grants, tokens, tasks and groups.
import { DELIVERIES } from '../../core/delivery/delivery.ts'
import { defineDaemon } from '../daemon.ts'
import { mountLine } from '../http/line-routes.ts'
import { CHANNEL_SETTINGS, INSTANCE_SETTINGS, ONBOARDING_SETTINGS } from '../settings.ts'
import { mountChannelRoutes } from './channel-routes.ts'
import { OutboxWorker } from './outbox-worker.ts'
import { Router } from './router.ts'
import { storeGauges } from './store-gauges.ts'
import { mountTaskRoutes } from './task-routes.ts'

export const routd = defineDaemon({
  name: 'routd',
  about: 'routes messages, and serves the resources that routing depends on',
  settings: { ...CHANNEL_SETTINGS, ...ONBOARDING_SETTINGS, ASSISTANT_NAME: INSTANCE_SETTINGS.ASSISTANT_NAME },
  metrics: [DELIVERIES],
  start: (context, settings) => {
    const { host, log, defer, suspects } = context
    defer(host.metrics.addSource(storeGauges(host)))
    mountLine(context)
    mountTaskRoutes(context)
    mountChannelRoutes(context, settings)
    const outbox = new OutboxWorker({ host, log, suspects })
    defer(() => outbox.close())
    const { ASSISTANT_NAME: assistantName } = settings
    const router = new Router({
      host,
      assistantName,
      get greeting() {
        return settings.ONBOARDING_GREETING
      },
      suspects,
    })
    defer(() => router.close())
  },
})
