// Profiles the threads of `svc serve` under a flood of hooks: `node bin/node.js bench/profile.ts [<seconds>] [<kind>]`. Kind
// `hooks` (the default) runs no turns; `turns` posts to many folders whose agents answer; `unknown` posts to links that do
// not exist. The profiler slows the server down, so this measures no rates.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { BenchScope } from './bench-scope.ts'
import { addFolders, mintHooks, openBenchInstance, unknownHooks } from './instance.ts'
import { burst, mustHaveWrk, writePaths } from './wrk.ts'

const LINKS = 1000
const FOLDERS = 100
/** Longer gaps between two samples mean that the process was suspended. */
const STEP_MAX_MICROS = 100_000
const SHOWN = 25
const ROOT = join(import.meta.dirname, '..')

const Profile = z.object({
  nodes: z.array(
    z.object({
      id: z.int(),
      callFrame: z.object({ functionName: z.string(), url: z.string(), lineNumber: z.int() }),
      children: z.array(z.int()).optional(),
    }),
  ),
  /** Microseconds of the clock of `process.hrtime`. */
  startTime: z.number(),
  samples: z.array(z.int()),
  timeDeltas: z.array(z.number()),
})
type Profile = z.output<typeof Profile>

await using scope = new BenchScope()
mustHaveWrk()
const [seconds = '10', kind = 'hooks'] = process.argv.slice(2)
const instance = await openBenchInstance(join(scope.root, 'small'))
const folders = kind === 'turns' ? Array.from({ length: FOLDERS }, (_, at) => `f${at}`) : ['main']
const targets = await instance.open(async (host) => {
  await addFolders(host, folders)
  return kind === 'unknown' ? unknownHooks(LINKS) : mintHooks(host, LINKS, folders)
})
const paths = writePaths(join(scope.root, 'paths'), targets)
const folder = join(scope.root, 'profiles')
mkdirSync(folder)
const profiled = ['--cpu-prof', `--cpu-prof-dir=${folder}`, '--cpu-prof-interval=250']
const server = await (kind === 'turns' ? instance.serve(profiled) : instance.serveWithoutTurns(profiled))
// Exclude the start and the first compilations.
await burst({ url: server.url, paths }, 3)
const from = now()
const { answers, refused } = await burst({ url: server.url, paths }, Number(seconds))
const to = now()
await server.stop()
process.stdout.write(`${answers} answers, ${refused} of them refusals, in ${seconds} s\n`)
for (const file of readdirSync(folder).sort()) {
  const thread = file.split('.').at(-3)
  process.stdout.write(`\nthread ${thread === '0' ? 'main' : thread}\n`)
  show(Profile.parse(JSON.parse(readFileSync(join(folder, file), 'utf8'))), answers)
}

function now(): number {
  return Number(process.hrtime.bigint() / 1000n)
}

function show({ nodes, startTime, samples, timeDeltas }: Profile, requests: number): void {
  const spent = new Map<number, number>()
  let at = startTime
  for (const [index, id] of samples.entries()) {
    const delta = timeDeltas[index] ?? 0
    at += delta
    if (at >= from && at < to && delta < STEP_MAX_MICROS) spent.set(id, (spent.get(id) ?? 0) + delta)
  }
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const [self, whole] = [new Map<string, number>(), new Map<string, number>()]
  const add = (sums: Map<string, number>, key: string, micros: number): void =>
    void sums.set(key, (sums.get(key) ?? 0) + micros)
  /** The time of a node and its children; of a recursive function only the outermost call counts. */
  const walk = (id: number, above: readonly string[]): number => {
    const node = byId.get(id)
    if (!node) return 0
    const key = nameOf(node.callFrame)
    const own = spent.get(id) ?? 0
    add(self, key, own)
    const sum = (node.children ?? []).reduce((total, child) => total + walk(child, [...above, key]), own)
    if (!above.includes(key)) add(whole, key, sum)
    return sum
  }
  const all = walk(nodes[0]?.id ?? 0, [])
  const idle = self.get('(idle)') ?? 0
  const busy = all - idle
  process.stdout.write(`busy ${((busy / all) * 100).toFixed(0)} %, ${(busy / requests).toFixed(1)} µs a request\n`)
  const list = (title: string, sums: ReadonlyMap<string, number>): void => {
    process.stdout.write(`${title}\n`)
    for (const [key, micros] of [...sums].sort((a, b) => b[1] - a[1]).slice(0, SHOWN)) {
      const [part, each] = [((micros / busy) * 100).toFixed(1), (micros / requests).toFixed(2)]
      process.stdout.write(`${part.padStart(6)} %  ${each.padStart(6)} µs  ${key}\n`)
    }
  }
  self.delete('(idle)')
  list('own time', self)
  list('functions in src, with their callees', new Map([...whole].filter(([key]) => key.includes(' src/'))))
}

function nameOf({ functionName, url, lineNumber }: Profile['nodes'][number]['callFrame']): string {
  const file = url.startsWith('file:') ? relative(ROOT, fileURLToPath(url)) : url
  const place = file === '' ? '' : ` ${file}:${lineNumber + 1}`
  return `${functionName || '(anonymous)'}${place}`
}
