// Files, skills and the creation of groups at the dashboard.
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, type TestHost, testHost } from '../../test/support/host.ts'
import { groupDirs } from '../core/layout.ts'
import { audit } from '../registry/audit.ts'
import { groupsResource } from './groups.ts'

const { create, files, read_file, write_file, skills } = groupsResource.verbs

const atDashboard = (at: TestHost, sub: string) => at.as({ kind: 'person', sub, session: 'a-session' }, 'dash')

function homeOf({ host }: TestHost, folder: string): string {
  assert.ok(host.layout)
  return groupDirs(host.layout, folder).home
}

onEveryEngine('files of groups', (engine) => {
  test('an administrator reads and writes files by version, audited without their content', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team')
    await at.grant('github:admin', 'admin', 'team')
    const admin = atDashboard(at, 'github:admin')
    const file = { folder: 'team', name: 'PERSONA.md' }
    const { version } = await admin.call(write_file, { ...file, version: 'none', content: 'Be brief, says the owner.' })
    assert.deepEqual(await admin.call(read_file, file), {
      name: 'PERSONA.md',
      content: 'Be brief, says the owner.',
      version,
      exists: true,
    })
    writeFileSync(join(homeOf(at, 'team'), 'PERSONA.md'), 'by the agent')
    await assert.rejects(admin.call(write_file, { ...file, version, content: 'late' }), isRefusal('conflict'))
    assert.equal(readFileSync(join(homeOf(at, 'team'), 'PERSONA.md'), 'utf8'), 'by the agent')
    const listed = (await admin.call(files, { folder: 'team' })).files
    assert.equal(listed.find(({ name }) => name === 'PERSONA.md')?.bytes, 12)
    assert.deepEqual((await admin.call(skills, { folder: 'team' })).skills, [])
    const rows = (await at.host.engine.read((tx) => audit.list(tx))).filter(({ action }) => action === write_file.id)
    assert.deepEqual(
      rows.map(({ actor, outcome }) => [actor, outcome]),
      [['github:admin', 'ok']],
    )
    assert.ok(!JSON.stringify(rows).includes('Be brief'))
  })

  test('others neither read nor write, and only known files of known groups exist', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'other')
    await at.grant('github:admin', 'admin', 'team')
    const admin = atDashboard(at, 'github:admin')
    const change = { name: 'PERSONA.md', version: 'none', content: 'x' }
    await assert.rejects(admin.call(write_file, { folder: 'other', ...change }), isRefusal('forbidden'))
    await assert.rejects(admin.call(read_file, { folder: 'other', name: 'PERSONA.md' }), isRefusal('forbidden'))
    assert.ok(!existsSync(join(homeOf(at, 'other'), 'PERSONA.md')))
    await assert.rejects(at.cli.call(write_file, { folder: 'nothing', ...change }), isRefusal('not_found'))
    for (const name of ['.env', '../other/PERSONA.md', 'facts/a.md', '.claude/settings.json'])
      await assert.rejects(admin.call(write_file, { folder: 'team', ...change, name }), isRefusal('invalid'))
  })

  test('creating a group makes its workspace, for those who administer the parent', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team')
    await at.grant('github:admin', 'admin', 'team/**')
    const admin = atDashboard(at, 'github:admin')
    assert.equal((await admin.call(create, { folder: 'team/new', product: 'support', name: 'News' })).added, true)
    assert.match(readFileSync(join(homeOf(at, 'team/new'), 'PERSONA.md'), 'utf8'), /support/i)
    assert.ok((await admin.call(skills, { folder: 'team/new' })).skills.some(({ description }) => description))
    assert.equal((await at.cli.call(groupsResource.verbs.show, { folder: 'team/new' })).name, 'News')
    await assert.rejects(admin.call(create, { folder: 'team/new' }), isRefusal('conflict', 'team/new already'))
    await assert.rejects(admin.call(create, { folder: 'top' }), isRefusal('forbidden'))
    await assert.rejects(admin.call(create, { folder: 'team/x', product: 'none' }), isRefusal('not_found', '"none"'))
    for (const folder of ['top', 'team/x']) assert.ok(!existsSync(homeOf(at, folder)), folder)
  })
})
