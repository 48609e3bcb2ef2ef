// The system's own list of names (hosts(5)), which goes before the DNS.
import { readFileSync } from 'node:fs'
import { canonicalAddress } from '../address-text.ts'
import { isOutOfFiles } from '../open-files.ts'
import { FileLook } from './file-look.ts'

/** Name in lower case to its addresses, in the order of the file. */
export type Hosts = ReadonlyMap<string, readonly string[]>

/** Without `u`, so that no letter from outside ASCII counts as one of these in another case. */
const NAME = /^[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?$/i

/** A line that cannot be read says nothing, as for the system. */
export function parseHosts(text: string): Hosts {
  const hosts = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [content = ''] = line.split('#', 1)
    const [spelled = '', ...names] = content.trim().split(/\s+/)
    const address = canonicalAddress(spelled)
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

/** Read again when it has changed. */
export class HostsFile {
  readonly #path: string
  readonly #look: FileLook
  #hosts: Hosts = new Map()
  /** It has changed, but no file could be opened to read it. */
  #isUnread = false

  constructor(path: string) {
    this.#path = path
    this.#look = new FileLook(path)
  }

  find(name: string, nowMs: number): readonly string[] | undefined {
    if (this.#look.hasChanged(nowMs) || this.#isUnread) this.#read()
    return this.#hosts.get(name)
  }

  #read(): void {
    this.#isUnread = false
    try {
      this.#hosts = parseHosts(readFileSync(this.#path, 'utf8'))
    } catch (error) {
      this.#isUnread = isOutOfFiles(error)
      // Not there, or not ours to read: the system's own lookup goes on without it, too.
      if (!this.#isUnread) this.#hosts = new Map()
    }
  }
}
