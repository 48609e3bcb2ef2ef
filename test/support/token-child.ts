// Runs a child process that prints `<token> <time>` for each answer that a client would receive, and kills it.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { StoreAddress } from '../../src/store/index.ts'

/** What a client knows. */
export interface TokenState {
  readonly token: string
  readonly now: number
}

/** Kills the child after some answers; returns the last one that the client received. */
export async function runUntilKilled(
  child: string,
  store: StoreAddress,
  start: TokenState,
  answers: number,
): Promise<TokenState> {
  const spawned = spawn(process.execPath, [join(import.meta.dirname, child), JSON.stringify({ store, ...start })], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(spawned, 'exit')
  let [last, count] = [start, 0]
  for await (const line of createInterface({ input: spawned.stdout })) {
    const [token = '', now = ''] = line.split(' ')
    last = { token, now: Number(now) }
    count++
    if (count === answers) spawned.kill('SIGKILL')
  }
  assert.deepEqual(await exited, [null, 'SIGKILL'])
  return last
}
