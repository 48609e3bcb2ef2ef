// get_web_host and set_web_host.
import assert from 'node:assert/strict'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { agents } from '../../test/support/agents.ts'
import { onEveryEngine } from '../../test/support/host.ts'

onEveryEngine('web hosts', (engine) => {
  test('are bound by the root and read by each folder', async (t) => {
    const here = await agents(t, engine, ['main', 'team', 'team/a'])
    const [root, team] = [await here.open('main'), await here.open('team')]
    assert.deepEqual(await team.call('get_web_host'), { hostname: '', folder: 'team' })
    const bind = (hostname: string, folder: string) => root.call('set_web_host', { hostname, folder })
    assert.deepEqual(await bind('b.example', 'team'), { 'b.example': 'team' })
    assert.deepEqual(await bind('a.example:8443', 'team'), { 'a.example:8443': 'team', 'b.example': 'team' })
    assert.deepEqual(await bind('b.example', 'team/a'), { 'a.example:8443': 'team', 'b.example': 'team/a' })
    assert.deepEqual(await team.call('get_web_host', { folder: 'team' }), {
      hostname: 'a.example:8443',
      folder: 'team',
    })
    assert.deepEqual(await root.call('get_web_host', { folder: 'team/a' }), { hostname: 'b.example', folder: 'team/a' })
    assert.deepEqual(await root.call('get_web_host'), { hostname: '', folder: 'main' })
  })
})

test('binds a directory of the groups area without a group', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team'])
  const root = await here.open('main')
  mkdirSync(join(here.root, 'groups', 'team', 'site'))
  assert.deepEqual(await root.call('set_web_host', { hostname: 'a.example', folder: 'team/site' }), {
    'a.example': 'team/site',
  })
  writeFileSync(join(here.root, 'groups', 'team', 'page'), 'x')
  symlinkSync('site', join(here.root, 'groups', 'team', 'link'))
  for (const folder of ['team/page', 'team/link'])
    assert.equal(
      await root.refusal('set_web_host', { hostname: 'b.example', folder }),
      `there is no directory ${folder} in the groups area`,
    )
})

test('unbinds a host name with an empty folder', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team'])
  const root = await here.open('main')
  for (const hostname of ['a.example', 'b.example']) await root.call('set_web_host', { hostname, folder: 'team' })
  assert.deepEqual(await root.call('set_web_host', { hostname: 'a.example', folder: '' }), { 'b.example': 'team' })
  assert.equal(
    await root.refusal('set_web_host', { hostname: 'a.example', folder: '' }),
    'the host name a.example is not bound',
  )
  assert.deepEqual(await root.call('get_web_host', { folder: 'team' }), { hostname: 'b.example', folder: 'team' })
})

test('refuses the host of the instance and a folder without a directory', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team'])
  const root = await here.open('main')
  const { host, hostname } = new URL(here.host.webBase)
  for (const own of new Set([host, hostname]))
    assert.match(
      await root.refusal('set_web_host', { hostname: own, folder: 'team' }),
      /^.* is the host of this instance \(WEB_HOST\)\nhint: /,
    )
  rmSync(join(here.root, 'groups', 'team'), { recursive: true })
  assert.equal(
    await root.refusal('set_web_host', { hostname: 'a.example', folder: 'team' }),
    'there is no directory team in the groups area',
  )
})

test('refuses invalid host names, unknown folders and other folders', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a'])
  const [root, team] = [await here.open('main'), await here.open('team')]
  const long = `${'a.'.repeat(126)}bc`
  for (const [args, expected] of [
    [{}, 'hostname is required; folder is required'],
    [{ hostname: '', folder: 'team' }, 'hostname must not be empty'],
    [{ hostname: long, folder: 'team' }, 'hostname is longer than 253 characters'],
    [{ hostname: 'Team.example', folder: 'team' }, /^hostname must be a host name/],
    [{ hostname: 'a_b.example', folder: 'team' }, /^hostname must be a host name/],
    [{ hostname: 'https://a.example', folder: 'team' }, /^hostname must be a host name/],
    [{ hostname: 'a.example', folder: '../team' }, /^folder must be names/],
    [{ hostname: 'a.example', folder: 'none' }, 'there is no directory none in the groups area'],
    [{ hostname: 'a.example', folder: 7 }, 'folder must be text'],
  ] as const) {
    const text = await root.refusal('set_web_host', args)
    if (typeof expected === 'string') assert.equal(text, expected)
    else assert.match(text, expected)
  }
  assert.equal(await root.refusal('get_web_host', { folder: 'none' }), 'there is no group none')
  for (const folder of ['team/a', 'main', 'none'])
    assert.equal(
      await team.refusal('get_web_host', { folder }),
      `get_web_host: not permitted on ${folder}: only the root may name another folder`,
    )
  // The tier limit overrides grants.
  await here.at.grant('folder:team', 'mcp:*', '**')
  const bind = { hostname: 'a.example', folder: 'team' }
  await assert.rejects(team.call('set_web_host', bind), { message: 'unknown tool: set_web_host' })
})
