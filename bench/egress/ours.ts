// Starts egress-proxy as an operator does: with a policy, the SNI check and an access log.
import { openSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Peer, spawnPinned, stopChild } from './peers.ts'

export const EGRESS_PROXY = join(import.meta.dirname, '..', '..', 'bin', 'egress-proxy.js')
/** Number of source addresses of the load, from 127.0.0.1. Ports and connections per address are limited. */
export const ADDRESSES = 16

export interface Ours extends Peer {
  readonly admin: string
}

export async function openOurs(root: string): Promise<Ours> {
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
      const [listener = '', address = ''] = line.split(' ')
      bound.set(listener, address)
    }
  const [forward, admin] = [bound.get('forward'), bound.get('admin')]
  if (child.pid === undefined || !forward || !admin) throw new Error('egress-proxy exited before it was ready')
  const ours: Ours = {
    pid: child.pid,
    port: Number(forward.split(':').at(-1)),
    admin: `http://${admin}`,
    stop: () => stopChild(child),
  }
  for (let last = 1; last <= ADDRESSES; last++) await register(ours, `127.0.0.${last}`, ['localhost'])
  return ours
}

export async function register({ admin }: Ours, ip: string, allowlist: readonly string[]): Promise<void> {
  const response = await fetch(`${admin}/v1/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ip, id: `bench-${ip}`, allowlist }),
  })
  if (!response.ok) throw new Error(`register failed with ${response.status}: ${await response.text()}`)
}
