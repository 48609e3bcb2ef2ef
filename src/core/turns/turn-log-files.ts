// Names of the log files of turns, and their last lines for operators.
import { basename, join } from 'node:path'
import { timestamp } from '../../lib/clock.ts'
import { Directory } from '../../lib/files/directory.ts'
import { redact } from '../../lib/log/redact.ts'
import { type GroupDirs, groupDirs, type Layout } from '../layout.ts'
import type { Turn } from './turns.ts'

/** Names sort by the day of the turn, then by the age of its message. */
export function turnLogFile({ logs }: Pick<GroupDirs, 'logs'>, turnId: string, now: number): string {
  return join(logs, `${timestamp(now).slice(0, 10)}-${turnId}.log`)
}

export interface TurnLogTail {
  /** Oldest first, without credentials and control characters. */
  readonly lines: readonly string[]
  /** Whether the file has earlier lines. */
  readonly is_cut: boolean
}

const TAIL_BYTES = 128 * 1024
const LINE_MAX = 2000
const DAY_MS = 24 * 3_600_000
/** A turn seldom runs past midnight, and its deadline is shorter than this. */
const DAYS_MAX = 3

/** The end of a turn's log; undefined if it has none. A turn that ran past midnight has one per day: the last is read. */
export async function readTurnLog(
  layout: Layout,
  turn: Pick<Turn, 'id' | 'folder' | 'started_at' | 'ended_at'>,
  { lines, now }: { readonly lines: number; readonly now: number },
): Promise<TurnLogTail | undefined> {
  const { logs } = groupDirs(layout, turn.folder)
  await using all = await Directory.open(layout.logs, { follow: true })
  await using directory = await all?.openDirectory(basename(logs))
  const first = Date.parse(turn.started_at)
  const last = turn.ended_at === undefined ? now : Date.parse(turn.ended_at)
  for (let day = last, count = 0; count < DAYS_MAX && day > first - DAY_MS; day -= DAY_MS, count++) {
    await using file = await directory?.openFile(basename(turnLogFile({ logs }, turn.id, day)))
    if (!file) continue
    const { size } = await file.stat()
    const length = Math.min(size, TAIL_BYTES)
    const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, size - length)
    return tailOf(buffer.subarray(0, bytesRead).toString('utf8'), lines, size > length)
  }
  return undefined
}

/** The first line of a cut text is dropped: it may be a part of one, and a part of a credential is not recognized. */
function tailOf(content: string, count: number, isCut: boolean): TurnLogTail {
  const all = content.split('\n')
  if (all.at(-1) === '') all.pop()
  if (isCut) all.shift()
  const shown = all.slice(-count)
  return { lines: shown.map(cleanLine), is_cut: isCut || shown.length < all.length }
}

function cleanLine(line: string): string {
  const plain = redact(line).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '')
  return plain.length > LINE_MAX ? `${plain.slice(0, LINE_MAX)}…` : plain
}
