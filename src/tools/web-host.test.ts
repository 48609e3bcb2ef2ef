// The host names of published pages.
import assert from 'node:assert/strict'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { agents } from '../../test/support/agents.ts'
import { onEveryEngine } from '../../test/support/host.ts'

onEveryEngine('web hosts', (engine) => {
  test('are bound by the root, and read by each folder', async (t) => {
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

test('a directory of the groups area needs no group to be bound', async (t) => {
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

test('an empty folder takes a host name back', async (t) => {
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

test('the host of the instance is bound to no folder, and a folder has its directory', async (t) => {
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

test('a host name is one, a folder is there, and each folder asks for its own', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a'])
  const [root, team] = [await here.open('main'), await here.open('team')]
  const long = `${'a.'.repeat(126)}bc`
  for (const [args, said] of [
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
    if (typeof said === 'string') assert.equal(text, said)
    else assert.match(text, said)
  }
  assert.equal(await root.refusal('get_web_host', { folder: 'none' }), 'there is no group none')
  for (const folder of ['team/a', 'main', 'none'])
    assert.equal(
      await team.refusal('get_web_host', { folder }),
      `get_web_host: not permitted on ${folder}: only the root may name another folder`,
    )
  // The bracket beats any grant.
  await here.at.grant('folder:team', 'mcp:*', '**')
  const bind = { hostname: 'a.example', folder: 'team' }
  await assert.rejects(team.call('set_web_host', bind), { message: 'unknown tool: set_web_host' })
})
