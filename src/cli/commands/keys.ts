// Signing keys of bearers: list and rotate them.
import { signingKeysResource } from '../../resources/signing-keys.ts'
import { defineSvcCommand } from '../command.ts'

const keys = signingKeysResource.verbs

export const keysCommands = [
  defineSvcCommand({
    usage: 'keys <instance> list [--json]',
    about: 'list the keys that sign bearers, newest first; a retiring key still verifies the bearers it has signed',
    example: 'keys demo list',
    run: async (svc) =>
      svc.print.table({
        rows: await svc.listAll(keys.list, 'signing_keys', {}),
        columns: {
          KEY: ({ kid }) => kid,
          STATUS: ({ status }) => status,
          CREATED_AT: ({ created_at }) => created_at,
          RETIRED_AT: ({ retired_at = '-' }) => retired_at,
          SERVES_UNTIL: ({ serves_until = '-' }) => serves_until,
        },
        empty: 'no signing keys; the first bearer creates one',
      }),
  }),
  defineSvcCommand({
    usage: 'keys <instance> rotate [--now]',
    about: 'sign new bearers with a new key; earlier bearers stay valid until they expire, unless --now ends them all',
    example: 'keys demo rotate',
    run: async (svc, { now = false }) => {
      const { kid = '', ended } = await svc.call(keys.rotate, { now })
      svc.print.line(`new bearers are signed with ${kid}`)
      if (!now) return svc.print.line('earlier bearers stay valid until they expire')
      svc.print.line(`ended ${ended.length === 1 ? '1 earlier key' : `${ended.length} earlier keys`}`)
      svc.print.line(
        'every bearer issued before is refused from now on: those of people, scripts, OAuth clients until they refresh, and services such as timed (ROUTD_BEARER_FILE)',
      )
    },
  }),
]
