// Many registries in one process that the test kills: each registers `10.0.0.1`, `10.0.0.2`, … endlessly and prints its
// index and the address after each response.
import { argv } from 'node:process'
import { SourceRegistry } from '../../src/egress/policy/source-registry.ts'

const paths = argv.slice(2)

async function registerOn(path: string, place: number): Promise<void> {
  // Of different sizes, so that they are at different steps.
  const allowlist = Array.from({ length: 1 + 300 * place }, (_, at) => `host-${at}.${'x'.repeat(60)}.example`)
  const sources = await SourceRegistry.open(path, (sentence) => console.log(`${place} ${sentence}`))
  for (let at = 1; at < 65_536; at++) {
    const { ip } = await sources.set({ ip: `10.0.${at >> 8}.${at & 255}`, id: 'child', allowlist })
    console.log(`${place} ${ip}`)
  }
}

await Promise.all(paths.map(registerOn))
