// Tries all ways out of a container at once. Runs inside it and prints one JSON object with the result of
// each attempt.
import { execFile } from 'node:child_process'
import { createSocket } from 'node:dgram'
import * as ffi from 'node:ffi'
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

const [, , world = '', gateway = '', proxy = ''] = process.argv
const DIRECT = ['--noproxy', '*']

/** Returns body and status, or the exit code of curl. Most attempts around the proxy get no answer. */
function curl(...args: string[]): Promise<string> {
  const patience = args.includes('*') ? '3' : '60'
  const fixed = ['--silent', '--max-time', patience, '--write-out', ' %{http_code}']
  return new Promise((resolve) => {
    execFile('curl', [...fixed, ...args], (error, stdout) =>
      resolve(error ? `fault ${error.code}` : stdout.replace(/\n/g, '')),
    )
  })
}

/** Returns the error. */
function ip(...args: string[]): Promise<string> {
  return new Promise((resolve) => execFile('ip', args, (error, _, stderr) => resolve(error ? stderr.trim() : 'done')))
}

/** Uses the C library, as most programs do. */
function lookUp(name: string): Promise<string> {
  return new Promise((resolve) =>
    execFile('getent', ['hosts', name], (_, stdout) => resolve(stdout.trim() || 'nothing')),
  )
}

/** Sending rarely fails; the outside world records whether packets arrive. */
async function send(address: string, family: 'udp4' | 'udp6'): Promise<string> {
  const socket = createSocket(family)
  socket.on('error', () => undefined)
  for (let times = 0; times < 3; times++) {
    socket.send('out', 4433, address, () => undefined)
    await pause(300)
  }
  socket.close()
  return 'sent'
}

function status(key: string): string {
  return new RegExp(`^${key}:\\s*(\\S+)`, 'm').exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? ''
}

/** Whether the kernel creates a socket of this family, also with bits that the kernel ignores. */
function openSocket(family: number): string {
  const i64 = 'i64' as const
  const { functions } = ffi.dlopen(null, { syscall: { arguments: [i64, i64, i64, i64], return: i64 } })
  const number = BigInt(process.arch === 'x64' ? 41 : 198)
  const families = [BigInt(family), (1n << 32n) + BigInt(family)]
  return families.map((each) => (functions.syscall(number, each, 1n, 0n) < 0n ? 'refused' : 'made')).join(' ')
}

const attempts: Record<string, Promise<string> | string> = {
  allowed: curl('http://www.allowed.test/through'),
  denied: curl('http://denied.test/'),
  'denied tunnel': curl('--proxytunnel', '--write-out', ' %{http_connect}', 'http://denied.test:443/'),
  'allowed without the proxy': curl(...DIRECT, 'http://www.allowed.test/around'),
  'address without the proxy': curl(...DIRECT, `http://${world}/around`),
  'address by the interface': curl(...DIRECT, '--interface', 'eth0', `http://${world}/around`),
  'address through the proxy': curl(`http://${world}/`),
  metadata: curl(...DIRECT, 'http://169.254.169.254/around'),
  'metadata through the proxy': curl('http://169.254.169.254/'),
  gateway: curl(...DIRECT, `http://${gateway}/around`),
  'bridge of the engine': curl(...DIRECT, '--interface', 'eth0', 'http://172.17.0.1/around'),
  admin: curl(...DIRECT, `http://${proxy}:3129/health`),
  'admin through the proxy': curl('http://127.0.0.1:3129/health'),
  'admin by its name': curl('--noproxy', '', 'http://localhost:3129/health'),
  IPv6: curl(...DIRECT, '--globoff', 'http://[2001:db8::80]/around'),
  'default routes':
    readFileSync('/proc/net/route', 'utf8')
      .match(/^\w+\t00000000\t.*/gm)
      ?.join() ?? 'none',
  'addresses of IPv6': readFileSync('/proc/net/if_inet6', 'utf8').trim(),
  name: lookUp('leak.test'),
  packet: send(world, 'udp4'),
  'packet to the gateway': send(gateway, 'udp4'),
  'packet by IPv6': send('2001:db8::80', 'udp6'),
  route: ip('route', 'replace', 'default', 'via', proxy),
  'address of its own choice': ip('address', 'add', '10.88.0.9/28', 'dev', 'eth0'),
  'source of its own choice': curl('--interface', '10.88.0.9', 'http://www.allowed.test/spoofed'),
  'local socket': openSocket(1),
  'vsock socket': openSocket(40),
  'hosts file': readFileSync('/etc/hosts', 'utf8'),
  'privileges it could have': status('CapBnd'),
  'new privileges barred': status('NoNewPrivs'),
}

const entries = Object.entries(attempts).map(async ([name, outcome]) => [name, await outcome])
process.stdout.write(JSON.stringify(Object.fromEntries(await Promise.all(entries))))
