// A bearer for REST, printed alone so that a script can take it.
import { parseDuration } from '../../lib/text/duration.ts'
import { signingKeysResource } from '../../resources/signing-keys.ts'
import { defineSvcCommand } from '../command.ts'

export const bearerCommands = [
  defineSvcCommand({
    usage: 'bearer <instance> <sub> [--folder|-f <f>] [--ttl|-t <duration>]',
    about: 'print a REST bearer for somebody, who acts from <f>; it lasts an hour unless --ttl says otherwise',
    example: 'bearer demo github:42 --folder team --ttl 12h',
    run: async (svc, { sub, folder, ttl }) => {
      const ttl_ms = ttl === undefined ? undefined : parseDuration(ttl)
      svc.print.line(await svc.call(signingKeysResource.verbs.issue_bearer, { sub, folder, ttl_ms }))
    },
  }),
]
