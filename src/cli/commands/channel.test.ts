import assert from 'node:assert/strict'
import { test } from 'node:test'
import { demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'

onEveryEngine('svc channel', (engine) => {
  test('adds, lists, rotates and removes the secret of an adapter', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.equal((await cli.run('channel demo list')).stderr, 'no adapter secrets, and no adapter is registered\n')
    const made = await cli.run('channel demo add bridge --platforms discord,slack')
    const secret = /^name: bridge\nplatforms: discord,slack\nsecret: (\S{43})\n$/.exec(made.stdout)?.[1] ?? ''
    assert.notEqual(secret, '')
    assert.match(made.stderr, /instead of CHANNEL_SECRET\. It is stored as a hash and not shown again\.\n$/)
    const listed = await cli.ok('channel demo list')
    assert.match(listed, /^NAME\tPLATFORMS\tCREATED_AT\tADAPTERS\nbridge\tdiscord,slack\t\S+Z\t-\n$/)
    assert.ok(!listed.includes(secret))
    const again = await cli.run('channel demo add bridge -p discord')
    assert.equal(again.code, 1)
    assert.match(again.stderr, /the adapter bridge has a secret already/)
    assert.match(again.stderr, /svc channel demo rotate bridge replaces it/)
    const rotated = JSON.parse(await cli.ok('channel demo rotate bridge --json'))
    assert.deepEqual(
      [rotated.name, rotated.platforms, rotated.ended, rotated.secret === secret],
      ['bridge', ['discord', 'slack'], [], false],
    )
    const [row] = JSON.parse(await cli.ok('channel demo list --json'))
    assert.deepEqual(Object.keys(row), ['name', 'platforms', 'created_at', 'created_by', 'adapters'])
    assert.equal(await cli.ok('channel demo rm bridge'), 'removed the secret of bridge\n')
    assert.equal((await cli.run('channel demo rm bridge')).stderr, 'svc: there is no secret for the adapter bridge\n')
    const last = await cli.ok('channel demo add bridge -p discord --json')
    assert.equal(JSON.parse(last).platforms.join(), 'discord')
    assert.deepEqual(JSON.parse(await cli.ok('channel demo rm bridge --json')), { name: 'bridge', ended: [] })
  })

  test('refuses platforms that are reserved for accounts, and an empty list', async (t) => {
    const cli = await demoCliOn(t, engine)
    const github = await cli.run('channel demo add bridge -p discord,github')
    assert.deepEqual([github.code, github.stderr], [1, 'svc: platforms: "github" is reserved for accounts\n'])
    assert.match((await cli.run('channel demo add bridge -p ,')).stderr, /^svc: platforms needs at least 1/)
    assert.equal(await cli.ok('channel demo list'), '')
  })
})
