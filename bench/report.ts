// Runs benchmarks, all or those whose name contains an argument, and prints their results.
import { loadavg } from 'node:os'
import { styleText } from 'node:util'
import { MissingRequirement, type Result } from './result.ts'

export type Benches = Readonly<Record<string, () => Promise<Result[]>>>

/** Printed next to the figures, because other load distorts them. */
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

/** Skips and reports benchmarks whose requirements are missing. */
export async function runBenches(benches: Benches, wanted: readonly string[]): Promise<void> {
  // A full name selects only that benchmark, not others that contain it.
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
