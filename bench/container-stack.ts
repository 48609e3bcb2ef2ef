// The image and its start: the size of the image against Debian with Node, and `svc run` until every container answers against
// `docker start` of the same containers.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DAEMON_NAMES } from '../src/daemons/settings.ts'
import { type ContainerEngine, openContainerEngine } from '../test/support/container-engine.ts'
import { needs } from '../test/support/needs.ts'
import { baseImages, buildSvcImage, loadSvcImage, SVC_IMAGE } from '../test/support/svc-image.ts'
import { MissingRequirement, median, type Result } from './result.ts'

const ROUNDS = 5
const SVC = join(import.meta.dirname, '..', 'bin', 'svc.js')
const PROBE = join(import.meta.dirname, 'container-probe.ts')
/** Daemons and egress-proxy. */
const CONTAINERS = DAEMON_NAMES.length + 1
const MB = 1e6

function mustHaveParts(): void {
  const { skip } = needs('root', 'engine', 'compose', 'mmdebstrap', 'npm')
  if (skip) throw new MissingRequirement(skip)
}

async function withEngine<T>(work: (engine: ContainerEngine, root: string) => Promise<T>): Promise<T> {
  mustHaveParts()
  const root = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const engine = await openContainerEngine(root, [])
  try {
    await loadSvcImage(engine)
    return await work(engine, root)
  } finally {
    await engine.stop()
    rmSync(root, { recursive: true, force: true })
  }
}

export async function benchImageSize(): Promise<Result[]> {
  mustHaveParts()
  const { dataRoot } = await buildSvcImage()
  const root = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const engine = await openContainerEngine(root, [], { dataRoot })
  try {
    const sizeOf = async (image: string): Promise<number> =>
      Number(await engine.docker('image', 'inspect', '--format', '{{.Size}}', image))
    const [base, image] = [await sizeOf(baseImages().BASE), await sizeOf(SVC_IMAGE)]
    const node = statSync(process.execPath).size
    const shown = (bytes: number): string => `${(bytes / MB).toFixed(0)} MB`
    return [
      {
        name: 'size of the image over Debian and Node',
        ratio: image / (base + node),
        goal: 'at most 1.1',
        detail: `${shown(image)}; Debian ${shown(base)}, Node ${shown(node)}`,
      },
    ]
  } finally {
    await engine.stop()
    rmSync(root, { recursive: true, force: true })
  }
}

export function benchColdRun(): Promise<Result[]> {
  return withEngine(async (engine, root) => {
    const env = { ...process.env, ...engine.environment, SVC_DATA_DIR: root, XDG_CACHE_HOME: join(root, 'cache') }
    const start = (...command: string[]): ChildProcess => {
      const [program = '', ...args] = engine.inside(command)
      return spawn(program, args, { env, stdio: 'ignore' })
    }
    await once(start(SVC, 'create', 'bench'), 'exit')
    /** Until every container answers. */
    const time = async (begin: () => ChildProcess): Promise<[number, ChildProcess]> => {
      const socket = engine.environment.DOCKER_HOST?.replace('unix://', '') ?? ''
      const [program = '', ...args] = engine.inside([process.execPath, PROBE, socket, 'svc_bench', `${CONTAINERS}`])
      const probe = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
      const up = once(probe.stdout, 'data')
      const started = performance.now()
      const child = begin()
      await up
      return [performance.now() - started, child]
    }
    const rounds: { run: number; start: number }[] = []
    for (let round = 0; round <= ROUNDS; round++) {
      const [run, running] = await time(() => start(SVC, 'run', 'bench'))
      const ids = (await engine.docker('ps', '--quiet')).split('\n')
      await engine.docker('stop', ...ids)
      if (running.exitCode === null) await once(running, 'exit')
      const [again] = await time(() => start('docker', 'start', ...ids))
      await engine.docker('rm', '--force', ...ids)
      await engine.docker('network', 'prune', '--force')
      // The first one fills the caches of the machine.
      if (round > 0) rounds.push({ run, start: again })
    }
    const [run, bare] = [median(rounds.map((each) => each.run)), median(rounds.map((each) => each.start))]
    return [
      {
        name: 'cold svc run until all containers answer, over docker start',
        ratio: median(rounds.map((each) => each.run / each.start)),
        goal: 'at most 1.5',
        detail: `${run.toFixed(0)} ms; docker start ${bare.toFixed(0)} ms`,
      },
    ]
  })
}
