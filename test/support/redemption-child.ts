// A process in which one person after another redeems an invite until it is killed. Prints each person whose call returned.
import { openHost } from '../../src/daemons/process/host.ts'
import { callVerb } from '../../src/registry/call.ts'
import { invitesResource } from '../../src/resources/invites.ts'
import type { StoreAddress } from '../../src/store/index.ts'

const input: { store: StoreAddress; token: string; name: string } = JSON.parse(process.argv[2] ?? '')
const host = await openHost({
  instance: 'test',
  store: input.store,
  secretsKey: 'a key of the tests',
  webBase: 'http://localhost:8080',
})
for (let count = 0; ; count++) {
  const sub = `local:${input.name}-${count}`
  const caller = { kind: 'person', sub, session: 'family' } as const
  await callVerb({ host, caller, face: 'dash' }, invitesResource.verbs.redeem, { token: input.token })
  process.stdout.write(`${sub}\n`)
}
