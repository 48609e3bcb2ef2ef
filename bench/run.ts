// npm run bench: every benchmark, or those whose name holds an argument. Ratios against baselines of the same run.
import { styleText } from 'node:util'
import { benchAccess } from './access.ts'
import { benchColdStart } from './cold-start.ts'
import { benchExport } from './export.ts'
import { benchList } from './list.ts'
import type { Result } from './result.ts'
import { benchVerbs } from './verbs.ts'

const BENCHES: Record<string, () => Promise<Result[]>> = {
  verbs: benchVerbs,
  list: benchList,
  access: benchAccess,
  export: benchExport,
  'cold-start': benchColdStart,
}

const wanted = process.argv.slice(2)
for (const [name, bench] of Object.entries(BENCHES)) {
  if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue
  process.stderr.write(`${name} …\n`)
  for (const { name, ratio, goal, detail } of await bench()) {
    process.stdout.write(
      `${styleText('bold', ratio.toFixed(2).padStart(8))}  ${name}\n${' '.repeat(10)}goal: ${goal}\n${' '.repeat(10)}${detail}\n`,
    )
  }
}
