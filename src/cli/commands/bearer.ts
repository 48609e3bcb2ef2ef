// A bearer for REST, printed alone so that a script can take it.
import { parseDuration } from '../../lib/duration.ts'
import { command } from '../command.ts'

export const bearerCommands = [
  command({
    usage: 'bearer <instance> <sub> [--folder|-f <f>] [--ttl|-t <duration>]',
    about: 'print a REST bearer for somebody, who acts from <f>; it lasts an hour unless --ttl says otherwise',
    example: 'bearer demo github:42 --folder team --ttl 12h',
    run: async (svc, { sub, folder, ttl }) => {
      const ttlMs = ttl === undefined ? undefined : parseDuration(ttl)
      const { host } = await svc.open()
      const { issueBearer } = await import('../../core/bearers.ts')
      svc.print.line(await issueBearer(host, { sub, folder, ttlMs }))
    },
  }),
]
