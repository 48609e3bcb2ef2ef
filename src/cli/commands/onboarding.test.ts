import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Cli, demoCliOn } from '../../../test/support/cli.ts'
import { fakeClock } from '../../../test/support/clock.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { onboardChat } from '../../core/people/onboarding-chat.ts'
import { openPairing } from '../../core/people/pairing-codes.ts'
import { systemClock } from '../../lib/clock.ts'
import { sourceOf } from '../../lib/settings.ts'
import { findInstance, openInstance } from '../instance/instance.ts'

/** The messages of a chat without a route. */
async function write(cli: Cli, jid: string, ...texts: string[]): Promise<void> {
  const environment = sourceOf('the test', new Map([['SVC_DATA_DIR', cli.dir]]))
  const clock = fakeClock()
  const host = await openInstance(await findInstance('demo', environment), { clock })
  for (const text of texts)
    await host.engine.transaction((tx) => onboardChat(tx, { jid, sender: 'telegram:7', text, now: clock.now() }))
  await host.close()
}

onEveryEngine('svc onboarding', (engine) => {
  test('lists requests and decides on them', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.deepEqual(await cli.run('onboarding demo list'), { code: 0, stdout: '', stderr: 'no requests\n' })
    await write(cli, 'telegram:42', 'hello', 'team/ada')
    await write(cli, 'telegram:43', 'hello')
    assert.equal(
      await cli.ok('onboarding demo list'),
      [
        'JID\tSTATUS\tFOLDER\tCODE\tGATE\tUSER\tCREATED',
        'telegram:42\tqueued\tteam/ada\t-\t-\ttelegram:7\t2026-01-01T00:00:00.000Z',
        'telegram:43\tawaiting_message\t-\t-\t-\ttelegram:7\t2026-01-01T00:00:00.000Z',
        '',
      ].join('\n'),
    )
    assert.equal(await cli.ok('onboarding demo approve telegram:42'), 'approved telegram:42 -> team/ada\n')
    assert.ok(existsSync(join(cli.root, 'groups', 'team', 'ada', 'PERSONA.md')))
    assert.match(await cli.ok('route demo list'), /platform=telegram room=42\s+team\/ada/)
    assert.match(await cli.ok('group demo grants'), /telegram:7\tteam\/ada\/\*\*/)
    assert.equal(await cli.ok('onboarding demo refuse telegram:43'), 'refused telegram:43\n')
    assert.equal(await cli.ok('onboarding demo reprompt telegram:43'), 'prompted telegram:43 again\n')
    assert.equal(await cli.ok('onboarding demo approve telegram:43 -f guests'), 'approved telegram:43 -> guests\n')
  })

  test('lets the owner of a pairing code talk to an existing folder', async (t) => {
    const cli = await demoCliOn(t, engine)
    const environment = sourceOf('the test', new Map([['SVC_DATA_DIR', cli.dir]]))
    const host = await openInstance(await findInstance('demo', environment), { clock: systemClock })
    const direct = { jid: 'telegram:user/42', sender: 'telegram:user/42', now: host.clock.now() }
    const code = await host.engine.transaction((tx) => openPairing(tx, host.random, direct))
    await host.close()
    assert.match(
      await cli.ok('onboarding demo list'),
      new RegExp(`^telegram:user/42\\tawaiting_message\\t-\\t${code}\\t`, 'm'),
    )
    const role = await cli.run(`onboarding demo approve ${code} --to main --role owner`)
    assert.match(role.stderr, /^svc: --role takes admin, member, none, not owner\n/)
    const approved = 'approved telegram:user/42 -> main\n'
    assert.equal(await cli.ok(`onboarding demo approve ${code?.toLowerCase()} --to main`), approved)
    assert.match(
      (await cli.run(`onboarding demo approve ${code} --to main`)).stderr,
      /no chat has this code, or it has expired/,
    )
    assert.match(await cli.ok('route demo list'), /platform=telegram room=user\/42\s+main/)
  })

  test('says what is wrong with a decision', async (t) => {
    const cli = await demoCliOn(t, engine)
    await write(cli, 'telegram:43', 'hello')
    const cases: Record<string, RegExp> = {
      'approve telegram:1': /^svc: there is no chat telegram:1 in onboarding\n$/,
      'approve telegram:43': /^svc: telegram:43 has not asked for a folder\nhint: name the new folder with folder\n$/,
      'approve telegram:43 --folder main':
        /^svc: the folder main is not available.*\nhint: .*svc group demo add telegram:43 main\n$/,
      'approve telegram:43 --folder ../up': /^svc: folder must be names/,
      'refuse nothing': /^svc: jid must look like platform:room/,
    }
    for (const [line, sentence] of Object.entries(cases)) {
      const { code, stderr } = await cli.run(`onboarding demo ${line}`)
      assert.equal(code, 1)
      assert.match(stderr, sentence)
    }
  })
})
