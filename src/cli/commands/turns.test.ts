import assert from 'node:assert/strict'
import { test } from 'node:test'
import { demoCliOn } from '../../../test/support/cli.ts'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { holdForApproval } from '../../core/access/approvals.ts'
import { systemClock } from '../../lib/clock.ts'
import { sourceOf } from '../../lib/settings.ts'
import { findInstance, openInstance } from '../instance/instance.ts'

onEveryEngine('svc turns, approvals and costs', (engine) => {
  test('list turns, show one and stop it, decide held calls and sum costs', async (t) => {
    const cli = await demoCliOn(t, engine)
    for (const [command, empty] of [
      ['turns demo list', 'no turns'],
      ['turns demo running', 'no turn is running'],
      ['approvals demo list', 'no tool call waits for an approval'],
      ['costs demo', 'no costs'],
    ] as const)
      assert.deepEqual(await cli.run(command), { code: 0, stdout: '', stderr: `${empty}\n` })
    const environment = sourceOf('the test', new Map([['SVC_DATA_DIR', cli.dir]]))
    const host = await openInstance(await findInstance('demo', environment), { clock: systemClock })
    const on = await openConversationHost(t, engine, { ...(await testHost(t)), host })
    const id = await on.ask('why\nnot?')
    const { turn } = await on.mustClaim()
    await on.submit('main', { turn_id: id, models: [{ model: 'm', input_tokens: 1, output_tokens: 2, cost_cents: 3 }] })
    const call = { folder: 'main', tool: 'send', args_hash: 'a', summary: '{"text":"x"}' }
    const held = await on.write((tx) => holdForApproval(tx, host, call))
    await host.close()
    const prefix = id.slice(0, 18)
    assert.match(await cli.ok('turns demo list main'), new RegExp(`\t${id}\tmain\trunning\tweb:main\t3\twhy not\\?\n$`))
    assert.match(
      await cli.ok('turns demo running'),
      new RegExp(`^ID.*\n${id}\tmain\trunning\tstarted\t${turn.started_at}\n$`),
    )
    assert.equal(await cli.ok(`turns demo stop ${prefix}`), `stopping turn ${id}\n`)
    const shown = await cli.ok(`turns demo show ${prefix}`)
    assert.match(shown, /cost: 3 cents/)
    assert.match(shown, /anon:1: why not\?/)
    assert.match((await cli.run('turns demo stop x')).stderr, /there is no turn whose id starts with x/)
    assert.match((await cli.run('turns demo list --state x')).stderr, /state/)
    assert.match(await cli.ok('approvals demo list'), new RegExp(`${held.id}\theld\tmain\tsend\t`))
    assert.equal(await cli.ok(`approvals demo approve ${held.id}`), 'approved send by main\n')
    assert.match((await cli.run(`approvals demo reject ${held.id}`)).stderr, /waits for approval\nhint: /)
    assert.match(await cli.ok('costs demo --by model'), /^MODEL\tCENTS\tTURNS\tINPUT\tOUTPUT\nm\t3\t1\t1\t2\n$/)
  })
})
