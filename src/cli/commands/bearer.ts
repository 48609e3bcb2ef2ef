// Prints a bearer for REST and nothing else, for use in scripts.
import { parseDuration } from '../../lib/text/duration.ts'
import { bearersResource } from '../../resources/bearers.ts'
import { defineSvcCommand } from '../command.ts'

export const bearerCommands = [
  defineSvcCommand({
    usage: 'bearer <instance> <sub> [--name|-n <name>] [--folder|-f <f>] [--ttl|-t <duration>]',
    about: 'print a REST bearer for a person, who acts from folder <f>; it expires after an hour, or after --ttl',
    example: 'bearer demo github:42 --name backup --folder team --ttl 12h',
    run: async (svc, { sub, name, folder, ttl }) => {
      const ttl_ms = ttl === undefined ? undefined : parseDuration(ttl)
      svc.print.line((await svc.call(bearersResource.verbs.create, { sub, name, folder, ttl_ms })).bearer)
    },
  }),
]
