// Prints a bearer for REST and nothing else, for use in scripts.
import { parseDuration } from '../../lib/text/duration.ts'
import { signingKeysResource } from '../../resources/signing-keys.ts'
import { defineSvcCommand } from '../command.ts'

export const bearerCommands = [
  defineSvcCommand({
    usage: 'bearer <instance> <sub> [--folder|-f <f>] [--ttl|-t <duration>]',
    about: 'print a REST bearer for a person, who acts from folder <f>; it expires after an hour, or after --ttl',
    example: 'bearer demo github:42 --folder team --ttl 12h',
    run: async (svc, { sub, folder, ttl }) => {
      const ttl_ms = ttl === undefined ? undefined : parseDuration(ttl)
      svc.print.line(await svc.call(signingKeysResource.verbs.issue_bearer, { sub, folder, ttl_ms }))
    },
  }),
]
