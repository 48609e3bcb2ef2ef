// A registry in a process that the test kills. Protocol by lines: prints `ready` and waits for a line; then registers `10.0.0.1`,
// `10.0.0.2`, … and prints each after its response, or `refused: …` with its entries; prints `over` at the end.
import { writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { SourceRegistry } from '../../src/egress/policy/source-registry.ts'

export interface SourcesOrders {
  readonly path: string
  readonly count: number
  /** Size of each entry: a large file is written in several parts. */
  readonly hosts: number
  /** For the control test: writes into the file directly, which must be detected. */
  readonly inPlace?: boolean
}

const { path, count, hosts, inPlace = false }: SourcesOrders = JSON.parse(process.argv[2] ?? '')
const sources = await SourceRegistry.open(path, (sentence) => console.error(sentence))
const allowlist = Array.from({ length: hosts }, (_, at) => `host-${at}.${'x'.repeat(60)}.example`)

console.log('ready')
for await (const _ of createInterface({ input: process.stdin })) break

for (let at = 1; at <= count; at++) {
  const entry = { ip: `10.0.${at >> 8}.${at & 255}`, id: 'child', allowlist }
  try {
    if (inPlace) await writeFile(path, JSON.stringify([...sources.list(), entry]))
    else await sources.set(entry)
    console.log(entry.ip)
  } catch (error) {
    console.log(`refused: ${error instanceof Error ? error.message : error} (${sources.size})`)
  }
}
console.log('over')
process.exit()
