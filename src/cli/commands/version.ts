// Which svc this is, and what it runs on.
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { tryParseJson } from '../../lib/text/json.ts'
import { defineSvcCommand } from '../command.ts'

const Manifest = z.object({ version: z.string() })

export const versionCommands = [
  defineSvcCommand({
    usage: 'version [--json]',
    about: 'print the versions of svc, Node and SQLite; svc --version does the same',
    example: 'version',
    run: async ({ print }) => {
      const file = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')
      const { version } = Manifest.parse(tryParseJson(file))
      const versions = { svc: version, node: process.versions.node, sqlite: process.versions.sqlite ?? 'none' }
      if (print.json) print.record({}, versions)
      else for (const [name, number] of Object.entries(versions)) print.line(`${name} ${number}`)
    },
  }),
]
