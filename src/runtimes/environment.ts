// The environment variables of a run: its turn, its secrets, the basics of any program, and the proxy of its cell. It
// contains nothing from the environment of svc itself except PATH, LANG and TZ.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Cell } from '../cell/cell.ts'
import { PROXY_PORT } from '../cell/init-perl.ts'
import type { ModelAddress } from '../cell/network.ts'
import { isPlainValue, withoutControl } from '../core/values.ts'
import { timestamp } from '../lib/clock.ts'
import { readEnvironment } from '../lib/environment.ts'
import type { Job } from './runtime.ts'

/** The ProxyCommand of ssh in a cell. */
const CONNECT_PROGRAM = fileURLToPath(new URL(`./connect${extname(import.meta.url)}`, import.meta.url))
const LOOPBACK = ['localhost', '127.0.0.1', '::1']
/** Linux limits one variable, with its name, to 128 KiB. */
const TEXT_MAX = 65_536
const STANDARD_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Variables of svc take precedence over secrets of the same name. Values with control characters are omitted. */
export function buildEnvironment(job: Job, cell: Cell, endpoint?: ModelAddress): Record<string, string> {
  const visible = cell.visiblePaths(job)
  const all = {
    ...job.env,
    ...buildBaseEnvironment(cell, visible.home),
    ...(cell.isNetworkOpen ? {} : buildProxyEnvironment(cell, endpoint)),
    SVC_SOCKET: visible.socket,
    SVC_TURN: job.turnId,
    SVC_FENCE: String(job.fence),
    SVC_FOLDER: job.folder,
    SVC_JID: job.jid,
    SVC_TOPIC: job.topic,
    SVC_TEXT: joinMessageTexts(job),
    SVC_SESSION: job.sessionId ?? '',
    // A visitor could have the agent say it.
    SVC_MONEY_CENTS: job.moneyCents === undefined || job.chat?.isVisitor ? '' : String(job.moneyCents),
    SVC_DEADLINE: timestamp(job.deadline),
  }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => isPlainValue(value)))
}

/** The message texts without the prompt around them, cut to fit into one variable. */
function joinMessageTexts({ messages }: Job): string {
  const text = messages.map((message) => message.text).join('\n\n')
  // In stream mode the decoder omits a character that was cut in half.
  const bytes = Buffer.from(withoutControl(text)).subarray(0, TEXT_MAX)
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: true })
}

export function buildBaseEnvironment(cell: Pick<Cell, 'searchPath'>, home: string): Record<string, string> {
  const TZ = readEnvironment('TZ')
  return {
    PATH: cell.searchPath(readEnvironment('PATH') || STANDARD_PATH),
    HOME: home,
    LANG: readEnvironment('LANG') || 'C.UTF-8',
    ...(TZ === undefined ? {} : { TZ }),
  }
}

/** Programs differ in the case of the names they read; Node, the JVM and git over ssh need variables of their own. */
function buildProxyEnvironment(cell: Cell, endpoint: ModelAddress | undefined): Record<string, string> {
  const proxy = `http://127.0.0.1:${PROXY_PORT}`
  // A cell has its own loopback, so a model on the host's loopback is reached through the proxy.
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
