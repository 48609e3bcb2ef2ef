// Creates the private network of a run on a free subnet.
import { networkInterfaces } from 'node:os'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { type ContainerEngine, runEngine } from '../container/engine.ts'
import { componentName, networkArgs, type Run } from '../container/engine-args.ts'
import { freeSubnets, parseCidr, type Subnet, showSubnet } from '../container/subnet.ts'
import type { CleanupWatcher } from './cleanup-watcher.ts'

/** Other runs may take the same subnet first. */
const TRIES = 64
const TAKEN = /overlap|already (?:being )?used/i

/** Uses the requested subnet, else the first free one. */
export async function makeNetwork(run: Run, requested: Subnet | undefined, { hold }: CleanupWatcher): Promise<Subnet> {
  const candidates = requested ? [requested] : freeSubnets(await takenSubnets(run.engine))
  let tries = 0
  for (const subnet of candidates) {
    if (++tries > TRIES) break
    if (!(await isMade(run, subnet, hold))) continue
    await mustBeInternal(run)
    return subnet
  }
  if (requested) return refuse('conflict', `the subnet ${showSubnet(requested)} of EGRESS_SUBNET is in use`, UNSET)
  return refuse('unavailable', 'no free subnet for a private network', 'set EGRESS_SUBNET to one')
}

const UNSET = 'another run may use it: without EGRESS_SUBNET each run picks a free one'

async function isMade(run: Run, subnet: Subnet, hold: CleanupWatcher['hold']): Promise<boolean> {
  try {
    await runEngine(run.engine, networkArgs(run, subnet), { hold })
    return true
  } catch (error) {
    if (error instanceof Refusal && TAKEN.test(error.message)) return false
    throw error
  }
}

/** The isolation depends on it, so check what the engine has created. */
async function mustBeInternal(run: Run): Promise<void> {
  const output = await runEngine(run.engine, [
    'network',
    'inspect',
    '--format',
    '{{.Internal}}',
    componentName(run, 'net'),
  ])
  if (output !== 'true') refuse('unavailable', `${run.engine.command} created a network that is not internal`)
}

/** Subnets of the engine's networks and of this machine's interfaces. */
async function takenSubnets(engine: ContainerEngine): Promise<Subnet[]> {
  const names = (await runEngine(engine, ['network', 'ls', '--quiet'])).split('\n').filter((id) => id !== '')
  // Find addresses in the output whatever its format. A network that has just been removed fails the call.
  const output = names.length === 0 ? '' : await runEngine(engine, ['network', 'inspect', ...names]).catch(() => '')
  const engines = [...output.matchAll(/"subnet":\s*"([^"]+)"/gi)].map(([, text = '']) => text)
  const machines = Object.values(networkInterfaces()).flatMap((list = []) => list.map(({ cidr }) => cidr ?? ''))
  return [...engines, ...machines].flatMap((text) => parseCidr(text) ?? [])
}
