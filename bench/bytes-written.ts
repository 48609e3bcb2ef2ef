// Bytes written to the disk for a message of 1 KiB with all daemons on: store, write-ahead log and search index. The kernel
// counts them for all processes, from the POST until the answers are stored and indexed.
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { BenchScope } from './bench-scope.ts'
import { mintChat, openBenchInstance } from './instance.ts'
import type { Result } from './result.ts'
import { untilQuiet } from './rounds.ts'
import { useOfTree } from './server.ts'

const MESSAGES = 1000
const WARM = 100
const PER_SECOND = 50
const CONTENT = 'a word '.repeat(146)
const GOAL = 24 * 1024

export async function benchBytesWritten(): Promise<Result[]> {
  await using scope = new BenchScope()
  const instance = await openBenchInstance(join(scope.root, 'written'), { SANDBOX: 'none' })
  const chat = await instance.open(mintChat)
  const svc = await scope.start(instance.serve())
  const post = async (): Promise<void> => {
    const headers = { 'Content-Type': 'application/json' }
    const answer = await fetch(`${svc.url}${chat}`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ content: CONTENT }),
    })
    if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`)
    await answer.arrayBuffer()
  }
  const send = async (count: number): Promise<void> => {
    const sent: Promise<void>[] = []
    for (let n = 0; n < count; n++) {
      sent.push(post())
      await pause(1000 / PER_SECOND)
    }
    await Promise.all(sent)
    await untilQuiet(svc)
  }
  await send(WARM)
  const before = useOfTree(svc).writtenBytes
  await send(MESSAGES)
  const each = (useOfTree(svc).writtenBytes - before) / MESSAGES
  return [
    {
      name: 'bytes written for a message of 1 KiB with its answer, over 24 KiB',
      ratio: each / GOAL,
      goal: 'at most 1',
      detail: `${(each / 1024).toFixed(1)} KiB a message, ${PER_SECOND} messages a second`,
    },
  ]
}
