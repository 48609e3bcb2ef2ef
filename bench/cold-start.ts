// How long a person waits for the first byte of help, and a supervisor for `ready`.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { median, type Result } from './result.ts'

const SVC = join(import.meta.dirname, '..', 'bin', 'svc.js')
const ROUNDS = 15

export async function benchColdStart(): Promise<Result[]> {
  const root = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const env = { ...process.env, SVC_DATA_DIR: root, XDG_CACHE_HOME: join(root, 'cache') }
  const run = (...args: string[]): number => {
    const started = performance.now()
    execFileSync(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'ignore'] })
    return performance.now() - started
  }
  try {
    run(SVC, 'create', 'bench')
    listenAnywhere(join(root, 'svc_bench', '.env'))
    run(SVC, 'group', 'bench', 'list')
    const rounds = Array.from({ length: ROUNDS }, () => ({
      bare: run('-e', '0'),
      help: run(SVC, '--help'),
      list: run(SVC, 'group', 'bench', 'list'),
    }))
    const ready: number[] = []
    for (let round = 0; round < 5; round++) ready.push(await untilReady(env))
    const bare = median(rounds.map((round) => round.bare))
    const against = (name: string, ms: number, goal: string): Result => ({
      name,
      ratio: ms / bare,
      goal,
      detail: `${ms.toFixed(0)} ms; node -e 0 ${bare.toFixed(0)} ms`,
    })
    return [
      against('cold start: svc --help', median(rounds.map((round) => round.help)), 'at most 3'),
      against('cold start: svc group list', median(rounds.map((round) => round.list)), 'none; watched'),
      against('cold start: svc serve to ready', median(ready), 'none; watched'),
    ]
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

/** The file beats the environment, so the free port is asked for there. */
function listenAnywhere(path: string): void {
  writeFileSync(path, readFileSync(path, 'utf8').replace(/^WEB_LISTEN=.*$/m, 'WEB_LISTEN=127.0.0.1:0'))
}

async function untilReady(env: NodeJS.ProcessEnv): Promise<number> {
  const started = performance.now()
  const child = spawn(process.execPath, [SVC, 'serve', 'bench'], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  try {
    for await (const line of createInterface({ input: child.stdout }))
      if (line === 'ready') return performance.now() - started
    throw new Error('svc serve ended before it was ready')
  } finally {
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
  }
}
