// The environment of a run: what it is told, what any program needs, and what leads ordinary programs to the proxy of its
// cell. Nothing of the service's own.

import { PROXY_PORT } from '../cell/bubblewrap/init-program.ts'
import type { Cell } from '../cell/cell.ts'
import type { ModelAddress } from '../cell/network.ts'
import { isPlainValue, withoutControl } from '../core/values.ts'
import { timestamp } from '../lib/clock.ts'
import { readEnvironment } from '../lib/settings.ts'
import { CONNECT_PROGRAM } from './connect-program.ts'
import type { Job } from './runtime.ts'

const LOOPBACK = ['localhost', '127.0.0.1', '::1']
/** Linux allows 128 KiB for a variable with its name. */
const TEXT_MAX = 65_536
const STANDARD_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** What svc sets itself wins over a secret of the same name. A value with control characters is left out. */
export function buildEnvironment(job: Job, cell: Cell, endpoint?: ModelAddress): Record<string, string> {
  const seen = cell.visiblePaths(job)
  const all = {
    ...job.env,
    ...baseEnvironment(cell, seen.home),
    ...(cell.isNetworkOpen ? {} : proxyEnvironment(cell, endpoint)),
    SVC_SOCKET: seen.socket,
    SVC_TURN: job.turnId,
    SVC_FENCE: String(job.fence),
    SVC_FOLDER: job.folder,
    SVC_JID: job.jid,
    SVC_TOPIC: job.topic,
    SVC_TEXT: textOf(job),
    SVC_SESSION: job.sessionId ?? '',
    SVC_MONEY_CENTS: job.moneyCents === undefined ? '' : String(job.moneyCents),
    SVC_DEADLINE: timestamp(job.deadline),
  }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => isPlainValue(value)))
}

/** What the turn is asked, without the prompt around it: no more than fits into one variable. */
function textOf({ messages }: Job): string {
  const text = messages.map((message) => message.text).join('\n\n')
  // The decoder leaves out the start of a character that was cut.
  const bytes = Buffer.from(withoutControl(text)).subarray(0, TEXT_MAX)
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: true })
}

export function baseEnvironment(cell: Pick<Cell, 'searchPath'>, home: string): Record<string, string> {
  const TZ = readEnvironment('TZ')
  return {
    PATH: cell.searchPath(readEnvironment('PATH') || STANDARD_PATH),
    HOME: home,
    LANG: readEnvironment('LANG') || 'C.UTF-8',
    ...(TZ === undefined ? {} : { TZ }),
  }
}

/** Programs disagree on the spelling, and some read none of them unless told: Node, the JVM, and git over ssh. */
function proxyEnvironment(cell: Cell, endpoint: ModelAddress | undefined): Record<string, string> {
  const proxy = `http://127.0.0.1:${PROXY_PORT}`
  // A model on the machine's loopback is not on that of the cell.
  const direct = LOOPBACK.filter((host) => host !== endpoint?.host)
  const java = ['http', 'https'].flatMap((scheme) => [
    `-D${scheme}.proxyHost=127.0.0.1`,
    `-D${scheme}.proxyPort=${PROXY_PORT}`,
  ])
  return {
    ...Object.fromEntries(['http_proxy', 'https_proxy', 'all_proxy'].flatMap((name) => spellings(name, proxy))),
    ...Object.fromEntries(spellings('no_proxy', direct.join(','))),
    NODE_USE_ENV_PROXY: '1',
    JAVA_TOOL_OPTIONS: [...java, '-Dhttp.nonProxyHosts=localhost|127.*|[::1]'].join(' '),
    GIT_SSH_COMMAND: `ssh -o ProxyCommand='${cell.pathInside(process.execPath)} ${cell.pathInside(CONNECT_PROGRAM)} %h %p'`,
  }
}

function spellings(name: string, value: string): [string, string][] {
  return [
    [name, value],
    [name.toUpperCase(), value],
  ]
}
