import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Cli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { createSession } from '../../core/people/sessions.ts'
import { systemClock } from '../../lib/clock.ts'
import { sourceOf } from '../../lib/settings.ts'
import { findInstance, openInstance } from '../instance/instance.ts'

async function startSession(cli: Cli, sub: string): Promise<string> {
  const environment = sourceOf('the test', new Map([['SVC_DATA_DIR', cli.dir]]))
  const host = await openInstance(await findInstance('demo', environment), { clock: systemClock })
  const started = { sub, kind: 'browser', method: 'link', name: 'Firefox', idleMs: 60_000, maxMs: 600_000 } as const
  try {
    return (await host.engine.transaction((tx) => createSession(tx, host, started))).session.family_id
  } finally {
    await host.close()
  }
}

onEveryEngine('svc session', (engine) => {
  test('lists sessions, all or of one person, and revokes one by its id', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.deepEqual(await cli.run('session demo list'), { code: 0, stdout: '', stderr: 'no sessions\n' })
    const [ada, bob] = [await startSession(cli, 'local:ada'), await startSession(cli, 'local:bob')]
    const [header, ...rows] = (await cli.ok('session demo list')).trimEnd().split('\n')
    assert.equal(header, 'ID\tSUB\tSTATUS\tKIND\tMETHOD\tNAME\tSTARTED_AT\tEXPIRES_AT')
    assert.deepEqual(rows.map((row) => row.split('\t')[0]).sort(), [ada, bob].sort())
    assert.match(
      await cli.ok('session demo list local:ada'),
      new RegExp(`\n${ada}\tlocal:ada\tactive\tbrowser\tlink\tFirefox\t`),
    )
    assert.equal((await cli.run('session demo list local:eve')).stderr, 'no sessions of local:eve\n')
    assert.equal(await cli.ok(`session demo revoke ${ada}`), `revoked session ${ada}\n`)
    assert.match(await cli.ok('session demo list local:ada'), /\trevoked\t/)
    for (const id of [ada, 'nothing']) assert.equal((await cli.run(`session demo revoke ${id}`)).code, 1)
  })
})
