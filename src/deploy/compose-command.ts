// Runs compose for an instance: `docker compose`, docker-compose 1.29 or podman-compose, the first that works.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import { join } from 'node:path'
import type { Layout } from '../core/layout.ts'
import { type ContainerEngine, engineSucceeds, lastLine, runEngine } from '../egress/container/engine.ts'
import { Refusal, refuse } from '../lib/refusal.ts'

export interface ComposeCommand {
  readonly engine: ContainerEngine
  /** The program with its first arguments. */
  readonly words: readonly string[]
  readonly kind: 'v2' | 'v1' | 'podman'
}

/** Written beside the files that containers mount. Without it compose would read .env in its own way, and fail on some. */
export const EMPTY_ENV_FILE = 'compose.env'

export function projectName(instance: string): string {
  // Project names are lower case; the data directory keeps the case.
  return `svc_${instance.toLowerCase()}`
}

const DOCKER: ContainerEngine = { command: 'docker', kind: 'docker' }
const PODMAN: ContainerEngine = { command: 'podman', kind: 'podman' }

export const ENGINES: readonly ContainerEngine[] = [DOCKER, PODMAN]

const CANDIDATES: readonly ComposeCommand[] = [
  { engine: DOCKER, words: ['docker', 'compose'], kind: 'v2' },
  { engine: DOCKER, words: ['docker-compose'], kind: 'v1' },
  { engine: PODMAN, words: ['podman-compose'], kind: 'podman' },
]

/** The socket in DOCKER_HOST; undefined unless it names one of this machine. */
export function engineSocketOf(dockerHost: string | undefined): string | undefined {
  return /^unix:\/\/(\/.+)$/.exec(dockerHost ?? '')?.[1]
}

/** The first that is installed. Refuses if there is none. */
export async function findCompose(): Promise<ComposeCommand> {
  for (const candidate of CANDIDATES) {
    const [command = '', ...args] = candidate.words
    if (await engineSucceeds({ ...candidate.engine, command }, [...args, 'version'])) return candidate
  }
  return refuse(
    'unavailable',
    'there is no docker compose, docker-compose or podman-compose on the PATH',
    'install one: apt install docker.io docker-compose',
  )
}

/** Refuses if the engine does not run or this user may not use it. */
export async function mustReachEngine({ engine, words }: ComposeCommand): Promise<void> {
  const args = engine.kind === 'podman' ? ['info'] : ['version', '--format', '{{.Server.Version}}']
  try {
    await runEngine(engine, args)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    if (error.code === 'not_found')
      refuse(
        'unavailable',
        `${words.join(' ')} is on the PATH, but ${engine.command}, which it needs, is not`,
        `install it: apt install ${engine.kind === 'podman' ? 'podman' : 'docker.io'}`,
      )
    if (/permission denied/i.test(error.message))
      refuse(
        'forbidden',
        `this user may not use the container engine: ${error.message}`,
        'sudo usermod -aG docker $USER, then sign in again; or run the command as root',
      )
    refuse('unavailable', `the container engine cannot be reached: ${error.message}`, 'sudo systemctl start docker')
  }
}

export async function mustHaveImage({ engine }: ComposeCommand, image: string): Promise<void> {
  if (await engineSucceeds(engine, ['image', 'inspect', image])) return
  refuse(
    'not_found',
    `there is no image ${image}`,
    `build it in the source of svc: ${engine.command} build -t ${image} . (or set SVC_IMAGE in .env and ${engine.command} pull it)`,
  )
}

/** The arguments before the command, such as `up`. */
export function composeArguments(
  { words, kind }: ComposeCommand,
  instance: string,
  layout: Layout,
  moreFiles: readonly string[] = [],
): readonly string[] {
  return [
    ...words.slice(1),
    // podman-compose of Debian does not know it.
    ...(kind === 'podman' ? [] : ['--env-file', join(layout.daemonEnvs, EMPTY_ENV_FILE)]),
    ...['-p', projectName(instance)],
    ...[layout.compose, ...moreFiles].flatMap((path) => ['-f', path]),
  ]
}

export interface AttachedRun {
  /** The exit code, as a shell reports it. */
  readonly code: number
  /** Whether a signal ended it. */
  readonly isInterrupted: boolean
}

/**
 * Runs compose on this process's own streams and passes SIGINT and SIGTERM on. On a terminal compose stays in the foreground and
 * gets Ctrl-C from there; passing it on as well would count as the second one, which kills.
 */
export async function runAttached(
  command: ComposeCommand,
  args: readonly string[],
  isTerminal: boolean,
): Promise<AttachedRun> {
  const [program = ''] = command.words
  let child: ReturnType<typeof spawn> | undefined
  let isInterrupted = false
  const pass = (signal: NodeJS.Signals): void => {
    isInterrupted = true
    if (!isTerminal || signal !== 'SIGINT') child?.kill(signal)
  }
  const signals = ['SIGINT', 'SIGTERM'] as const
  // Before the start: a signal right after it would end this process alone.
  for (const signal of signals) process.on(signal, pass)
  child = spawn(program, args, { stdio: 'inherit', detached: !isTerminal })
  try {
    const [code, signal]: [number | null, NodeJS.Signals | null] = await exitOf(child, program)
    return { code: code ?? 128 + (signal === null ? 0 : constants.signals[signal]), isInterrupted }
  } finally {
    for (const signal of signals) process.off(signal, pass)
  }
}

async function exitOf(
  child: ReturnType<typeof spawn>,
  program: string,
): Promise<[number | null, NodeJS.Signals | null]> {
  try {
    const [code, signal] = await once(child, 'exit')
    return [code, signal]
  } catch (error) {
    return refuse(
      'unavailable',
      `${program} cannot be started: ${error instanceof Error ? lastLine(error.message) : ''}`,
    )
  }
}
