// A bearer for REST, printed alone so that a script can take it.
import { groups } from '../../core/groups.ts'
import { parseDuration } from '../../lib/duration.ts'
import { refuse } from '../../lib/refusal.ts'
import { command } from '../command.ts'

export const bearerCommands = [
  command({
    usage: 'bearer <instance> <sub> [--folder|-f <f>] [--ttl|-t <duration>]',
    about: 'print a REST bearer for somebody, who acts from <f>; it lasts an hour unless --ttl says otherwise',
    example: 'bearer demo github:42 --folder team --ttl 12h',
    run: async (svc, { instance, sub, folder, ttl }) => {
      const ttlMs = ttl === undefined ? undefined : parseDuration(ttl)
      const { host } = await svc.open()
      const { issueBearer } = await import('../../core/bearers.ts')
      const bearer = await issueBearer(host, { sub, folder, ttlMs })
      if (folder !== undefined) {
        const group = await host.engine.read((tx) => groups.find(tx, { folder }))
        if (!group) refuse('not_found', `there is no group ${folder}`, `svc group ${instance} list shows them`)
      }
      svc.print.line(bearer)
    },
  }),
]
