// `egress-proxy run`: one command in a container whose only way out is a proxy of its own. Whatever happens, nothing of it
// stays behind.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { isatty } from 'node:tty'
import type { Out } from '../lib/print.ts'
import { misuse } from '../lib/program.ts'
import { Refusal } from '../lib/refusal.ts'
import { readSettings } from '../lib/settings.ts'
import type { Io } from './command.ts'
import { readRegistration } from './registration.ts'
import { CommandFault, mustBeRunnable } from './run/command-check.ts'
import { call, findEngine } from './run/engine.ts'
import { mustHaveImages } from './run/images.ts'
import { Interrupted, Interrupts } from './run/interrupts.ts'
import { makeNetwork } from './run/network.ts'
import {
  connectArgs,
  hasOwnHosts,
  hostsArchive,
  nameOf,
  proxyArgs,
  type Run,
  seedArchive,
  type Workload,
  workloadArgs,
} from './run/parts.ts'
import { type RunningProxy, startProxy } from './run/proxy.ts'
import { removeContainer, removeDead, removeNetwork } from './run/remains.ts'
import { writeSeccompProfile } from './run/seccomp.ts'
import { ImageName, RUN_SETTINGS, type RunSettings } from './run/settings.ts'
import type { Subnet } from './run/subnet.ts'
import { makeTag } from './run/tag.ts'
import { Teardown } from './run/teardown.ts'
import { startWatch, type Watch } from './run/watch.ts'
import { mustStandAlone, runToEnd } from './run/workload.ts'

export interface RunOptions {
  /** Host names in their one spelling; none of them denies everything. */
  readonly allow: readonly string[]
  readonly id?: string | undefined
  /** Of the workload. */
  readonly image?: string | undefined
  readonly denyPrivate: boolean
  readonly command: readonly string[]
}

export type RunIo = Pick<Io, 'stdout' | 'stderr' | 'environment'>

/** A denial says whom it is for. */
const DEFAULT_ID = 'run'
/** As the engines report that it was they who failed, and not the command. */
const SET_UP_FAILED = 125

/**
 * The exit code is the workload's; or 127 where the image has no such command, 126 where it is not executable, 125 where the
 * container could not be made or started; or 128 and the signal that came before.
 */
export async function runWorkload(options: RunOptions, io: RunIo): Promise<number> {
  mustBeValid(options)
  const interrupts = new Interrupts()
  try {
    const settings = readSettings(RUN_SETTINGS, [io.environment])
    return await Promise.race([runParts(options, settings, io, interrupts), interrupts.second])
  } catch (error) {
    if (error instanceof Interrupted) return error.code
    if (error instanceof CommandFault) {
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

/** Before anything is made. The address is not known yet, and any is as good. */
function mustBeValid({ allow, id = DEFAULT_ID, image, command }: RunOptions): void {
  if (command.length === 0) misuse('a command is missing')
  if (command[0] === '') misuse('the name of the command is empty')
  if (image !== undefined && !ImageName.safeParse(image).success) misuse('--image must be the name of an image')
  try {
    readRegistration({ ip: '192.0.2.1', id, allowlist: allow })
  } catch (error) {
    if (error instanceof Refusal) misuse(error.message, error.hint)
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
  }
  // What runs before this one have left; that it cannot be removed is no reason to run nothing.
  const swept = removeDead(engine).catch(() => undefined)
  await mustHaveImages(run, workload, io.stderr)
  await swept
  interrupts.check()
  const watch = startWatch(engine, run.tag)
  const teardown = new Teardown(run, watch, io.stderr)
  try {
    const proxy = await setUp(run, { options, settings, workload, interrupts, watch, teardown, stderr: io.stderr })
    const code = await runToEnd(run, { proxy, isTerminal: workload.isTerminal, interrupts, stderr: io.stderr })
    teardown.expectAll()
    return code
  } finally {
    await teardown.finish()
  }
}

interface Surroundings {
  readonly options: RunOptions
  readonly settings: RunSettings
  readonly workload: Workload
  readonly interrupts: Interrupts
  readonly watch: Watch
  readonly teardown: Teardown
  readonly stderr: Out
}

/**
 * The workload's container is there, with its address, before that address is registered, and does not start before the
 * proxy is ready: at no moment does an entry stand for somebody else.
 */
async function setUp(run: Run, surroundings: Surroundings): Promise<RunningProxy> {
  const { options, settings, workload, interrupts, watch, teardown } = surroundings
  const { engine } = run
  const { hold } = watch
  const subnet = await makeNetwork(run, settings.EGRESS_SUBNET, watch)
  teardown.push(() => removeNetwork(engine, nameOf(run, 'net')))
  interrupts.check()
  await makeWorkload(run, subnet, surroundings)
  teardown.push(() => removeContainer(engine, nameOf(run, 'workload')))
  await mustStandAlone(run)
  await mustBeRunnable(run, workload)
  if (hasOwnHosts(run)) {
    await call(engine, ['cp', '-', `${nameOf(run, 'workload')}:/`], { input: hostsArchive(subnet) })
  }
  interrupts.check()
  await call(engine, proxyArgs(run, subnet), { hold })
  teardown.push(() => removeContainer(engine, nameOf(run, 'proxy')))
  await call(engine, connectArgs(run, subnet))
  const seed = { id: options.id ?? DEFAULT_ID, allowlist: options.allow, secret: randomBytes(32).toString('hex') }
  await call(engine, ['cp', '-', `${nameOf(run, 'proxy')}:/`], { input: seedArchive(run, subnet, seed) })
  interrupts.check()
  const proxy = await startProxy(run)
  interrupts.check()
  return proxy
}

async function makeWorkload(run: Run, subnet: Subnet, { workload, watch, stderr }: Surroundings): Promise<void> {
  const profile = await writeSeccompProfile(run.engine, stderr)
  try {
    const args = workloadArgs(run, subnet, { ...workload, seccompPath: profile?.path })
    await call(run.engine, args, { hold: watch.hold })
  } finally {
    await profile?.remove()
  }
}

function workloadOf({ image, command }: RunOptions, { EGRESS_IMAGE }: RunSettings): Workload {
  return {
    image: image ?? EGRESS_IMAGE,
    command,
    isTerminal: isatty(0) && isatty(1),
    // An engine in a virtual machine has its own kernel, and they all have it.
    hasIPv6: process.platform !== 'linux' || existsSync('/proc/sys/net/ipv6'),
  }
}
