// A redemption is complete or did not happen, also when its process is killed.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { acl } from '../../src/core/access/acl.ts'
import { inviteRedemptions, invites } from '../../src/core/people/invites.ts'
import { invitesResource } from '../../src/resources/invites.ts'
import type { StoreAddress } from '../../src/store/index.ts'
import { freshStore, onEveryEngine, testHost } from '../support/host.ts'

const CHILD = join(import.meta.dirname, '..', 'support', 'redemption-child.ts')

async function redeemUntilKilled(store: StoreAddress, token: string, kill: number): Promise<string[]> {
  const child = spawn(process.execPath, [CHILD, JSON.stringify({ store, token, name: `k${kill}` })], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  const redeemed: string[] = []
  for await (const sub of createInterface({ input: child.stdout })) {
    redeemed.push(sub)
    if (redeemed.length === 3 + kill * 2) child.kill('SIGKILL')
  }
  assert.deepEqual(await exited, [null, 'SIGKILL'])
  return redeemed
}

onEveryEngine('an invite whose server is killed during redemption', (engine) => {
  test('has as many uses as grants, and none is lost', async (t) => {
    const store = await freshStore(t, engine)
    const { host, cli } = await testHost(t, engine, store)
    const { token } = await cli.call(invitesResource.verbs.create, { target_glob: 'team/**', max_uses: 100_000 })
    const confirmed: string[] = []
    for (let kill = 0; kill < 5; kill++) confirmed.push(...(await redeemUntilKilled(store, token, kill)))
    const [invite, granted, redemptions] = await host.engine.read(async (tx) => [
      (await invites.list(tx))[0],
      (await acl.list(tx, { granted_by: 'invite' })).map(({ principal }) => principal),
      (await inviteRedemptions.list(tx)).map(({ sub }) => sub),
    ])
    assert.deepEqual(redemptions.toSorted(), granted.toSorted())
    assert.equal(invite?.used_count, granted.length)
    assert.deepEqual(
      confirmed.filter((sub) => !granted.includes(sub)),
      [],
    )
  })
})
