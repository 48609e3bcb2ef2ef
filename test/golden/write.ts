// What is public, as files: `npm run golden` writes them, a test holds them against what is made now, and a change of the
// public surface shows as a diff in review.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { svcHelpText } from '../../src/cli/help-text.ts'
import { API_DESCRIPTIONS } from '../../src/daemons/api-descriptions.ts'
import { DAEMON_NAMES } from '../../src/daemons/settings.ts'
import { egressHelpText } from '../../src/egress/help-text.ts'
import { openapiText } from '../../src/faces/openapi.ts'
import { resourcesServedBy } from '../../src/faces/operations.ts'
import { resources } from '../../src/resources/index.ts'
import { exportGolden } from './export.ts'
import { schemaStepsText } from './schema-steps.ts'
import { toolsText } from './tools.ts'

/** A file below this folder, and what makes it. */
export type Golden = readonly [path: string, make: () => string | Promise<string>]

export const GOLDEN: readonly Golden[] = [
  ...DAEMON_NAMES.map(
    (daemon): Golden => [
      `openapi/${daemon}.json`,
      () => openapiText(daemon, resourcesServedBy(daemon, resources), API_DESCRIPTIONS[daemon]),
    ],
  ),
  ['tools.json', toolsText],
  ['export.yaml', exportGolden],
  ['../../src/daemons/schema-steps.ts', schemaStepsText],
  // Next to the launcher, which prints it without loading anything.
  ['../../bin/help.txt', svcHelpText],
  ['../../bin/help-egress-proxy.txt', egressHelpText],
]

async function write(): Promise<void> {
  for (const [path, make] of GOLDEN) {
    const file = join(import.meta.dirname, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, await make())
  }
}

if (import.meta.main) await write()
