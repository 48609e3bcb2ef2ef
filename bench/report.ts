// Runs the benchmarks of a list, all of them or those whose name holds an argument, and prints what they say.
import { loadavg } from 'node:os'
import { styleText } from 'node:util'
import { MissingRequirement, type Result } from './result.ts'

export type Benches = Readonly<Record<string, () => Promise<Result[]>>>

/** What else the machine did while it measured belongs beside the figures. */
const load = (): string => `load average ${loadavg()[0]?.toFixed(1)}`

async function runBench(name: string, bench: () => Promise<Result[]>): Promise<void> {
  process.stderr.write(`${name} … (${load()})\n`)
  for (const { name, ratio, goal, detail } of await bench()) {
    process.stdout.write(
      `${styleText('bold', ratio.toFixed(2).padStart(8))}  ${name}\n${' '.repeat(10)}goal: ${goal}\n${' '.repeat(10)}${detail}\n`,
    )
  }
  process.stderr.write(`${name} done (${load()})\n`)
}

/** What the machine lacks is said, and the rest is measured all the same. */
export async function runBenches(benches: Benches, wanted: readonly string[]): Promise<void> {
  // The whole name of one benchmark is not also a part of others.
  const isWanted = (name: string): boolean =>
    wanted.length === 0 ||
    wanted.some((part) => name === part || (!Object.hasOwn(benches, part) && name.includes(part)))
  for (const [name, bench] of Object.entries(benches)) {
    if (!isWanted(name)) continue
    try {
      await runBench(name, bench)
    } catch (error) {
      if (!(error instanceof MissingRequirement)) throw error
      process.stderr.write(`${name} was not measured: it ${error.message}\n`)
      process.exitCode = 1
    }
  }
}
