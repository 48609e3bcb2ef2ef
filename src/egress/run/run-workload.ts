// `egress-proxy run`: runs a command in a container that can only reach the network through its own proxy, and removes everything
// afterwards.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { isatty } from 'node:tty'
import type { OutputStream } from '../../lib/command-line/print.ts'
import { throwUsageError } from '../../lib/command-line/program.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readSettings } from '../../lib/settings.ts'
import type { EgressIo } from '../cli/command.ts'
import { CommandNotRunnableError, checkCommandRunnable } from '../container/command-check.ts'
import { addsDefaultRoute, findEngine, runEngine } from '../container/engine.ts'
import {
  componentName,
  connectArgs,
  hasOwnHosts,
  holderArgs,
  hostsArchive,
  proxyArgs,
  type Run,
  seedArchive,
  type Workload,
  workloadArgs,
} from '../container/engine-args.ts'
import { ensureImages } from '../container/images.ts'
import { makeTag } from '../container/run-tag.ts'
import { writeSeccompProfile } from '../container/seccomp.ts'
import type { Subnet } from '../container/subnet.ts'
import { readRegistration } from '../policy/registration.ts'
import { type CleanupWatcher, startCleanupWatcher } from './cleanup-watcher.ts'
import { startComponent } from './component-start.ts'
import { Interrupted, Interrupts } from './interrupts.ts'
import { makeNetwork } from './network.ts'
import { type ProxyContainer, startProxyContainer } from './proxy-container.ts'
import { removeContainer, removeNetwork, removeOrphanedRuns } from './run-resources.ts'
import { ImageName, RUN_SETTINGS, type RunSettings } from './settings.ts'
import { Teardown } from './teardown.ts'
import { checkSingleNetwork, runWorkloadToExit } from './workload.ts'

export interface RunOptions {
  /** Canonical host names; an empty list denies everything. */
  readonly allow: readonly string[]
  readonly id?: string | undefined
  /** Image of the workload. */
  readonly image?: string | undefined
  readonly denyPrivate: boolean
  readonly command: readonly string[]
}

export type RunIo = Pick<EgressIo, 'stdout' | 'stderr' | 'environment'>

/** Shown in denials. */
const DEFAULT_ID = 'run'
/** As engines report their own failures, as opposed to the command's. */
const SET_UP_FAILED = 125

/**
 * Returns the workload's exit code; or 127 if the image has no such command, 126 if it is not executable, 125 if the container
 * could not be created or started; or 128 plus the number of a signal that came before.
 */
export async function runWorkload(options: RunOptions, io: RunIo): Promise<number> {
  mustBeValid(options)
  const interrupts = new Interrupts()
  try {
    const settings = readSettings(RUN_SETTINGS, [io.environment])
    return await Promise.race([runParts(options, settings, io, interrupts), interrupts.forcedExit])
  } catch (error) {
    if (error instanceof Interrupted) return error.code
    if (error instanceof CommandNotRunnableError) {
      io.stderr.write(`egress-proxy: ${error.message}\n`)
      return error.code
    }
    if (!(error instanceof Refusal)) throw error
    io.stderr.write(`egress-proxy: ${error.message}\n${error.hint === undefined ? '' : `hint: ${error.hint}\n`}`)
    return SET_UP_FAILED
  } finally {
    interrupts.close()
  }
}

/** Validates before anything is created, with a placeholder for the address, which is not known yet. */
function mustBeValid({ allow, id = DEFAULT_ID, image, command }: RunOptions): void {
  if (command.length === 0) throwUsageError('a command is missing')
  if (command[0] === '') throwUsageError('the name of the command is empty')
  if (image !== undefined && !ImageName.safeParse(image).success)
    throwUsageError('--image must be the name of an image')
  try {
    readRegistration({ ip: '192.0.2.1', id, allowlist: allow })
  } catch (error) {
    if (error instanceof Refusal) throwUsageError(error.message, error.hint)
    throw error
  }
}

async function runParts(
  options: RunOptions,
  settings: RunSettings,
  io: RunIo,
  interrupts: Interrupts,
): Promise<number> {
  const engine = await findEngine()
  const workload = workloadOf(options, settings)
  const run = {
    engine,
    tag: makeTag(),
    image: settings.EGRESS_IMAGE,
    network: settings.EGRESS_NETWORK,
    denyPrivate: options.denyPrivate,
    hasHolder: await addsDefaultRoute(engine),
  }
  // Remains of earlier runs; if they cannot be removed, the run starts anyway.
  const swept = removeOrphanedRuns(engine).catch(() => undefined)
  await ensureImages(run, workload, io.stderr)
  await swept
  interrupts.check()
  const watch = startCleanupWatcher(engine, run.tag)
  const teardown = new Teardown(run, watch, io.stderr)
  try {
    const proxy = await setUp(run, { options, settings, workload, interrupts, watch, teardown, stderr: io.stderr })
    const code = await runWorkloadToExit(run, { proxy, isTerminal: workload.isTerminal, interrupts, stderr: io.stderr })
    teardown.expectAll()
    return code
  } finally {
    await teardown.finish()
  }
}

interface SetupContext {
  readonly options: RunOptions
  readonly settings: RunSettings
  readonly workload: Workload
  readonly interrupts: Interrupts
  readonly watch: CleanupWatcher
  readonly teardown: Teardown
  readonly stderr: OutputStream
}

/**
 * The workload's container exists, with its address, before that address is registered, and starts only after the proxy is ready:
 * an entry never applies to another container.
 */
async function setUp(run: Run, context: SetupContext): Promise<ProxyContainer> {
  const { options, settings, workload, interrupts, watch, teardown } = context
  const { engine } = run
  const { hold } = watch
  const subnet = await makeNetwork(run, settings.EGRESS_SUBNET, watch)
  teardown.push(() => removeNetwork(engine, componentName(run, 'net')))
  interrupts.check()
  if (run.hasHolder) {
    await runEngine(engine, holderArgs(run, subnet, workload), { hold })
    teardown.push(() => removeContainer(engine, componentName(run, 'holder')))
  }
  await makeWorkload(run, subnet, context)
  teardown.push(() => removeContainer(engine, componentName(run, 'workload')))
  await checkSingleNetwork(run)
  await checkCommandRunnable(run, workload)
  if (hasOwnHosts(run)) {
    await runEngine(engine, ['cp', '-', `${componentName(run, 'workload')}:/`], { input: hostsArchive(subnet) })
  }
  interrupts.check()
  await runEngine(engine, proxyArgs(run, subnet), { hold })
  teardown.push(() => removeContainer(engine, componentName(run, 'proxy')))
  await runEngine(engine, connectArgs(run, subnet))
  const seed = { id: options.id ?? DEFAULT_ID, allowlist: options.allow, secret: randomBytes(32).toString('hex') }
  await runEngine(engine, ['cp', '-', `${componentName(run, 'proxy')}:/`], { input: seedArchive(run, subnet, seed) })
  interrupts.check()
  const [proxy] = await Promise.all([
    startProxyContainer(run),
    run.hasHolder ? startComponent(run, 'holder', { label: 'the private network' }) : undefined,
  ])
  interrupts.check()
  return proxy
}

async function makeWorkload(run: Run, subnet: Subnet, { workload, watch, stderr }: SetupContext): Promise<void> {
  const profile = await writeSeccompProfile(run.engine, stderr)
  try {
    const args = workloadArgs(run, subnet, { ...workload, seccompPath: profile?.path })
    await runEngine(run.engine, args, { hold: watch.hold })
  } finally {
    await profile?.remove()
  }
}

function workloadOf({ image, command }: RunOptions, { EGRESS_IMAGE }: RunSettings): Workload {
  return {
    image: image ?? EGRESS_IMAGE,
    command,
    isTerminal: isatty(0) && isatty(1),
    // An engine in a virtual machine has its own kernel, and all of those support IPv6.
    hasIPv6: process.platform !== 'linux' || existsSync('/proc/sys/net/ipv6'),
  }
}
