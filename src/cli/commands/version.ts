// Prints the versions of svc and its platform.
import { packageVersion } from '../../lib/version.ts'
import { defineSvcCommand } from '../command.ts'

export const versionCommands = [
  defineSvcCommand({
    usage: 'version [--json]',
    about: 'print the versions of svc, Node and SQLite; svc --version does the same',
    example: 'version',
    run: async ({ print }) => {
      const versions = { svc: packageVersion(), node: process.versions.node, sqlite: process.versions.sqlite ?? 'none' }
      if (print.json) print.record({}, versions)
      else for (const [name, number] of Object.entries(versions)) print.line(`${name} ${number}`)
    },
  }),
]
