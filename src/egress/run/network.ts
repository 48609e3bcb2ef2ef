// The private network of a run, on a subnet that is free.
import { networkInterfaces } from 'node:os'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { call, type Engine } from './engine.ts'
import { nameOf, networkArgs, type Run } from './parts.ts'
import { freeSubnets, readBlock, type Subnet, showSubnet } from './subnet.ts'
import type { Watch } from './watch.ts'

/** Other runs look for one at the same moment, and take it first. */
const TRIES = 64
const TAKEN = /overlap|already (?:being )?used/i

/** Makes it on the subnet that was asked for, else on the first that nobody has. */
export async function makeNetwork(run: Run, asked: Subnet | undefined, { hold }: Watch): Promise<Subnet> {
  const candidates = asked ? [asked] : freeSubnets(await takenSubnets(run.engine))
  let tries = 0
  for (const subnet of candidates) {
    if (++tries > TRIES) break
    if (!(await isMade(run, subnet, hold))) continue
    await mustBeInternal(run)
    return subnet
  }
  if (asked) return refuse('conflict', `the subnet ${showSubnet(asked)} of EGRESS_SUBNET is taken`, UNSET)
  return refuse('unavailable', 'there is no free subnet for a private network', 'EGRESS_SUBNET names one')
}

const UNSET = 'another run may have it: without EGRESS_SUBNET, each run takes a free one'

async function isMade(run: Run, subnet: Subnet, hold: Watch['hold']): Promise<boolean> {
  try {
    await call(run.engine, networkArgs(run, subnet), { hold })
    return true
  } catch (error) {
    if (error instanceof Refusal && TAKEN.test(error.message)) return false
    throw error
  }
}

/** Everything rests on it, so the engine is not believed unseen. */
async function mustBeInternal(run: Run): Promise<void> {
  const said = await call(run.engine, ['network', 'inspect', '--format', '{{.Internal}}', nameOf(run, 'net')])
  if (said !== 'true') refuse('unavailable', `${run.engine.command} has made a network that is not internal`)
}

/** Those of the engine's networks and of this machine's interfaces. */
async function takenSubnets(engine: Engine): Promise<Subnet[]> {
  const names = (await call(engine, ['network', 'ls', '--quiet'])).split('\n').filter((id) => id !== '')
  // Whichever form the engine's answer has, these are the addresses in it. A network that is gone by now fails the call.
  const said = names.length === 0 ? '' : await call(engine, ['network', 'inspect', ...names]).catch(() => '')
  const engines = [...said.matchAll(/"subnet":\s*"([^"]+)"/gi)].map(([, text = '']) => text)
  const machines = Object.values(networkInterfaces()).flatMap((list = []) => list.map(({ cidr }) => cidr ?? ''))
  return [...engines, ...machines].flatMap((text) => readBlock(text) ?? [])
}
