// Cold start: how long `svc --help` and `svc group list` take, and `svc serve` until it prints `ready`.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { median, type Result } from './result.ts'

/** Started as a shell starts it. */
const SVC = join(import.meta.dirname, '..', 'bin', 'svc.js')
const ROUNDS = 15
const SERVE_ROUNDS = 7

export async function benchColdStart(): Promise<Result[]> {
  const root = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const env = { ...process.env, SVC_DATA_DIR: root, XDG_CACHE_HOME: join(root, 'cache') }
  const run = (program: string, ...args: string[]): number => {
    const started = performance.now()
    execFileSync(program, args, { env, stdio: ['ignore', 'pipe', 'ignore'] })
    return performance.now() - started
  }
  const bare = (): number => run(process.execPath, '-e', '0')
  try {
    run(SVC, 'create', 'bench')
    listenAnywhere(join(root, 'svc_bench', '.env'))
    run(SVC, 'group', 'bench', 'list')
    const rounds = Array.from({ length: ROUNDS }, () => ({
      bare: bare(),
      help: run(SVC, '--help'),
      list: run(SVC, 'group', 'bench', 'list'),
    }))
    // The first start compiles and caches the code.
    await untilReady(env)
    const starts: { bare: number; ready: number }[] = []
    for (let round = 0; round < SERVE_ROUNDS; round++) starts.push({ bare: bare(), ready: await untilReady(env) })
    const against = (name: string, times: readonly number[], bares: readonly number[], goal: string): Result => ({
      name,
      ratio: median(times) / median(bares),
      goal,
      detail: `${median(times).toFixed(0)} ms; node -e 0 ${median(bares).toFixed(0)} ms`,
    })
    const bares = rounds.map((round) => round.bare)
    return [
      against(
        'cold start: svc --help',
        rounds.map((round) => round.help),
        bares,
        'at most 3',
      ),
      against(
        'cold start: svc group list',
        rounds.map((round) => round.list),
        bares,
        'at most 5',
      ),
      against(
        'cold start: svc serve to ready',
        starts.map((start) => start.ready),
        starts.map((start) => start.bare),
        'at most 8',
      ),
    ]
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

/** Requests a free port in `.env`, which takes precedence over the environment. */
function listenAnywhere(path: string): void {
  writeFileSync(path, readFileSync(path, 'utf8').replace(/^WEB_LISTEN=.*$/m, 'WEB_LISTEN=127.0.0.1:0'))
}

async function untilReady(env: NodeJS.ProcessEnv): Promise<number> {
  const started = performance.now()
  const child = spawn(SVC, ['serve', 'bench'], {
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
