// The system's hosts file (hosts(5)), which takes precedence over the DNS.
import { readFileSync } from 'node:fs'
import { canonicalAddress } from '../address/ip-address.ts'
import { isOutOfFiles } from '../transport/open-files.ts'
import { FileChangeDetector } from './file-change-detector.ts'

/** Lower-case name to addresses, in file order. */
export type HostsTable = ReadonlyMap<string, readonly string[]>

/** Without `u`, so that no non-ASCII letter matches by case folding. */
const NAME = /^[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?$/i

/** Ignores malformed lines, as the system does. */
export function parseHosts(text: string): HostsTable {
  const hosts = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [content = ''] = line.split('#', 1)
    const [first = '', ...names] = content.trim().split(/\s+/)
    const address = canonicalAddress(first)
    if (address === undefined) continue
    for (const name of names) if (NAME.test(name)) addAddress(hosts, name.toLowerCase().replace(/\.$/, ''), address)
  }
  return hosts
}

function addAddress(hosts: Map<string, string[]>, name: string, address: string): void {
  const addresses = hosts.get(name)
  if (!addresses) hosts.set(name, [address])
  else if (!addresses.includes(address)) addresses.push(address)
}

/** Rereads the file when it changes. */
export class HostsFile {
  readonly #path: string
  readonly #changes: FileChangeDetector
  #hosts: HostsTable = new Map()
  /** It changed, but could not be read for lack of file descriptors. */
  #isUnread = false

  constructor(path: string) {
    this.#path = path
    this.#changes = new FileChangeDetector(path)
  }

  find(name: string, nowMs: number): readonly string[] | undefined {
    if (this.#changes.hasChanged(nowMs) || this.#isUnread) this.#read()
    return this.#hosts.get(name)
  }

  #read(): void {
    this.#isUnread = false
    try {
      this.#hosts = parseHosts(readFileSync(this.#path, 'utf8'))
    } catch (error) {
      this.#isUnread = isOutOfFiles(error)
      // Missing or unreadable: the system's resolver ignores it too.
      if (!this.#isUnread) this.#hosts = new Map()
    }
  }
}
