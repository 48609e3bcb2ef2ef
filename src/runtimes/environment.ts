// The environment of a run: what it is told, and what any program needs. Nothing of the service's own.
import { timestamp } from '../lib/clock.ts'
import { fromEnvironment } from '../lib/settings.ts'
import type { Job } from './runtime.ts'

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** `seen` is where the process finds its workspace and its socket. */
export function environmentOf(
  job: Job,
  seen: { readonly home: string; readonly socket: string },
): Record<string, string> {
  return {
    ...bareEnvironment(seen.home),
    ...job.env,
    SVC_SOCKET: seen.socket,
    SVC_TURN: job.turnId,
    SVC_FENCE: String(job.fence),
    SVC_FOLDER: job.folder,
    SVC_JID: job.jid,
    SVC_TOPIC: job.topic,
    SVC_SESSION: job.sessionId ?? '',
    SVC_MONEY_CENTS: job.moneyCents === undefined ? '' : String(job.moneyCents),
    SVC_DEADLINE: timestamp(job.deadline),
  }
}

export function bareEnvironment(home: string): Record<string, string> {
  const TZ = fromEnvironment('TZ')
  return {
    PATH: fromEnvironment('PATH') || PATH,
    HOME: home,
    LANG: fromEnvironment('LANG') || 'C.UTF-8',
    ...(TZ === undefined ? {} : { TZ }),
  }
}
