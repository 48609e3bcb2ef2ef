// Starts egress-proxy as an operator does: with policy, SNI check and a log line per connection.
import { openSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Peer, spawnPinned, stopChild } from './peers.ts'

export const EGRESS_PROXY = join(import.meta.dirname, '..', '..', 'bin', 'egress-proxy.js')
/** Number of client addresses, from 127.0.0.1 up, because ports and connections per address are limited. */
export const ADDRESSES = 16

export interface EgressProxyPeer extends Peer {
  readonly admin: string
}

export async function openOurs(root: string): Promise<EgressProxyPeer> {
  const args = ['proxy', 'serve', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
  const env = {
    EGRESS_TRANSPARENT_ADDR: '',
    EGRESS_STATE_PATH: join(root, 'egress-state.json'),
    XDG_CACHE_HOME: join(root, 'cache'),
  }
  const child = spawnPinned([process.execPath, EGRESS_PROXY, ...args], env, openSync(join(root, 'egress.log'), 'a'))
  const bound = new Map<string, string>()
  if (child.stdout)
    for await (const line of createInterface({ input: child.stdout })) {
      if (line === 'ready') break
      const [name = '', address = ''] = line.split(' ')
      bound.set(name, address)
    }
  const [forward, admin] = [bound.get('forward'), bound.get('admin')]
  if (child.pid === undefined || !forward || !admin) throw new Error('egress-proxy ended before it was ready')
  const ours: EgressProxyPeer = {
    pid: child.pid,
    port: Number(forward.split(':').at(-1)),
    admin: `http://${admin}`,
    stop: () => stopChild(child),
  }
  for (let last = 1; last <= ADDRESSES; last++) await register(ours, `127.0.0.${last}`, ['localhost'])
  return ours
}

export async function register({ admin }: EgressProxyPeer, ip: string, allowlist: readonly string[]): Promise<void> {
  const answer = await fetch(`${admin}/v1/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ip, id: `bench-${ip}`, allowlist }),
  })
  if (!answer.ok) throw new Error(`register answered ${answer.status}: ${await answer.text()}`)
}
