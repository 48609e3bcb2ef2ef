// Prints the log of an instance that runs in containers or as a systemd unit.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { LogCommand } from '../../deploy/log-source.ts'
import { isPlainText } from '../../lib/command-line/print.ts'
import { readableLogLine } from '../../lib/log/readable-lines.ts'
import { refuse } from '../../lib/refusal.ts'
import { readDuration } from '../../lib/text/duration.ts'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'

const DEFAULT_SINCE = '24h'
/** With --follow: enough to see what came before. */
const FOLLOW_SINCE = '10m'
const DEFAULT_LIMIT = '200'
const LIMIT_MAX = 100_000

export const logsCommands = [
  defineSvcCommand({
    usage: 'logs <instance> [<daemon>] [--follow|-f] [--since|-s <time>] [--limit|-n <n>] [--json]',
    about:
      'print the log of the containers or the systemd unit of an instance, newest last; --since is a duration such as 2h or a time, default 24h; --follow starts 10 minutes ago and continues until Ctrl-C',
    example: 'logs demo webd --follow',
    run: async (svc, { instance, daemon, follow, since, limit = DEFAULT_LIMIT }) => {
      const start = parseSince(since ?? (follow ? FOLLOW_SINCE : DEFAULT_SINCE), svc.io.clock.now())
      const count = Math.min(Math.max(parseInteger('--limit', limit), 1), LIMIT_MAX)
      const { layout } = await svc.findInstance()
      const { findLogCommands } = await import('../../deploy/log-source.ts')
      const query = { instance, layout, service: daemon, since: start, isFollowing: follow }
      const commands = await findLogCommands(query)
      if (follow) return followLog(svc, commands, daemon)
      const lines = await readLog(svc, commands, daemon, count)
      if (lines.length === 0) svc.print.say('no log lines')
      for (const line of lines) svc.print.line(formatLine(svc, line))
    },
  }),
]

interface LogLine {
  /** When the container printed it; empty in a journal, whose lines are in order. */
  readonly time: string
  readonly text: string
}

/** Lines of other programs in containers become entries, so that their service and time are visible. */
function makeEntry({ time, text }: LogLine, service: string): LogLine {
  return { time, text: isObject(tryParseJson(text)) ? text : JSON.stringify({ time, daemon: service, msg: text }) }
}

/** Milliseconds since 1970. */
function parseSince(text: string, now: number): number {
  const duration = readDuration(text)
  if (duration !== undefined) return now - duration
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isFinite(time)) return time
  return refuse(
    'invalid',
    `--since must be a duration such as 2h or a time such as 2026-01-31T12:00:00Z, not ${JSON.stringify(text.slice(0, 40))}`,
  )
}

async function readLog(
  svc: SvcContext,
  commands: readonly LogCommand[],
  daemon: string | undefined,
  count: number,
): Promise<readonly LogLine[]> {
  const lists = await Promise.all(
    commands.map(async (command) => {
      const lines: LogLine[] = []
      await runLogCommand(svc, command, daemon, (line) => {
        lines.push(line)
        if (lines.length >= 2 * count) lines.splice(0, lines.length - count)
      })
      return lines
    }),
  )
  const all = lists.flat()
  // A stable sort, so a journal stays as it is.
  return all.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0)).slice(-count)
}

async function followLog(svc: SvcContext, commands: readonly LogCommand[], daemon: string | undefined): Promise<void> {
  const stop = new AbortController()
  void svc.io.stopped().then(() => stop.abort())
  const print = (line: LogLine): void => svc.print.line(formatLine(svc, line))
  await Promise.all(commands.map((command) => runLogCommand(svc, command, daemon, print, stop.signal)))
}

/** Resolves when the program ends. Its own complaints are messages of this command. */
async function runLogCommand(
  { print }: SvcContext,
  { command, args, service }: LogCommand,
  daemon: string | undefined,
  onLine: (line: LogLine) => void,
  signal?: AbortSignal,
): Promise<void> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  signal?.addEventListener('abort', () => child.kill('SIGTERM'))
  if (signal?.aborted) child.kill('SIGTERM')
  const take = (text: string): void => {
    const line = service === undefined ? { time: '', text } : makeEntry(splitTime(text), service)
    if (service !== undefined || daemon === undefined || daemonOf(line.text) === daemon) onLine(line)
  }
  createInterface({ input: child.stdout }).on('line', take)
  // A container's stderr, where svc logs; for a journal, messages of journalctl.
  createInterface({ input: child.stderr }).on('line', service === undefined ? print.say : take)
  try {
    await once(child, 'close')
  } catch (error) {
    refuse('unavailable', `${command} cannot be started: ${error instanceof Error ? error.message : error}`)
  }
}

function splitTime(text: string): LogLine {
  const at = text.indexOf(' ')
  return at < 0 ? { time: '', text } : { time: text.slice(0, at), text: text.slice(at + 1) }
}

function daemonOf(text: string): unknown {
  const entry = tryParseJson(text)
  return isObject(entry) ? entry.daemon : undefined
}

/** With --json every line is an object; lines of other programs become its message. */
function formatLine({ print, io }: SvcContext, { text }: LogLine): string {
  if (!print.json) return readableLogLine(text, io.stdout.isTerminal && !isPlainText(io.environment))
  return isObject(tryParseJson(text)) ? text : JSON.stringify({ msg: text })
}
