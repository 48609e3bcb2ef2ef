// The routing daemon: routes, grants, tokens, tasks and groups; where messages go, and the way to the platforms.
import { daemon } from '../daemon.ts'
import { CHANNEL_SETTINGS, INSTANCE_SETTINGS } from '../settings.ts'
import { mountChannels } from './channels.ts'
import { OutboxWorker } from './outbox.ts'
import { Router } from './router.ts'
import { mountTasks } from './tasks.ts'

export const routd = daemon({
  name: 'routd',
  about: 'decides where messages go, and serves what decides it',
  settings: { ...CHANNEL_SETTINGS, ASSISTANT_NAME: INSTANCE_SETTINGS.ASSISTANT_NAME },
  start: (frame, settings) => {
    const { host, log, defer } = frame
    mountTasks(frame)
    mountChannels(frame, settings)
    const outbox = new OutboxWorker({ host, log })
    defer(() => outbox.close())
    const router = new Router({ host, assistantName: settings.ASSISTANT_NAME })
    defer(() => router.close())
  },
})
