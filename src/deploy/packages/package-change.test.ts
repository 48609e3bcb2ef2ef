import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isRefusal, onEveryEngine } from '../../../test/support/host.ts'
import { listTree } from '../../../test/support/package-files.ts'
import { CHANGED_PACKAGE, packageHost } from '../../../test/support/package-host.ts'
import { setUpFolder } from '../../core/groups/products.ts'
import { proxydRoutes } from '../../core/links/proxyd-routes.ts'
import { audit } from '../../registry/audit.ts'
import { aclResource } from '../../resources/acl.ts'
import { groupsResource } from '../../resources/groups.ts'
import { findConflicts, findDirtyParts, mustFindInstalled } from './package-change.ts'

onEveryEngine('packages', (engine) => {
  test('are installed with their files, rows and skills, and removed without a trace', async (t) => {
    const { on, instance, root, load, install, remove, state } = await packageHost(t, engine)
    const before = await state()
    assert.deepEqual(await install(await load()), [])
    assert.deepEqual(Object.keys(listTree(root, (path) => /^(services|skills|packages)/.test(path))), [
      'services',
      'services/gate',
      'services/gate/config.yaml',
      'services/gate.yml',
      'skills',
      'skills/summary',
      'skills/summary/.package',
      'skills/summary/SKILL.md',
      'skills/summary/more',
      'skills/summary/more/example.md',
    ])
    for (const folder of ['main', 'team'])
      assert.equal(readFileSync(join(root, 'groups', folder, '.claude/skills/summary/SKILL.md'), 'utf8'), '# Summary\n')
    const { acl: grants } = await on.cli.call(aclResource.verbs.list, { scope: 'team/**' })
    assert.deepEqual(
      grants.map(({ granted_by, action }) => [granted_by, action]),
      [['package:gate', 'mcp:send']],
    )
    const { source, revision, manifest } = await mustFindInstalled(instance, 'gate')
    assert.deepEqual(
      [source, revision.length, manifest?.services, manifest?.hosts, manifest?.skills, manifest?.settings],
      ['/the/source', 40, ['gate'], ['api.example.com'], ['summary'], ['GATE_KEY']],
    )
    assert.deepEqual(await remove(), [])
    assert.deepEqual(await state(), before)
    const actions = await on.host.engine.read((tx) => audit.list(tx, { resource: 'installed_packages' }))
    assert.deepEqual(
      actions.map(({ action, key }) => [action, key.endsWith('gate')]),
      [
        ['installed_packages.install', true],
        ['installed_packages.remove', true],
      ],
    )
    assert.match(actions[0]?.params_summary ?? '', /"grant folder:main mcp:send on team\/\*\*"/)
  })

  test('are upgraded without what the new revision lacks', async (t) => {
    const { instance, load, install, upgrade, remove, state } = await packageHost(t, engine)
    const before = await state()
    await install(await load(CHANGED_PACKAGE))
    const fresh = await state()
    await remove()
    await install(await load())
    assert.deepEqual(
      await findConflicts(instance, await load(CHANGED_PACKAGE), await mustFindInstalled(instance, 'gate')),
      [],
    )
    assert.deepEqual(await upgrade(await load(CHANGED_PACKAGE)), [])
    assert.deepEqual(await state(), fresh)
    await remove()
    assert.deepEqual(await state(), before)
  })

  test('conflict with files, services and rows that exist, which then stay as they are', async (t) => {
    const { on, instance, root, load, install, state } = await packageHost(t, engine)
    mkdirSync(join(root, 'services'))
    writeFileSync(join(root, 'services/gate.yml'), 'mine')
    writeFileSync(join(root, 'services/other.yml'), 'services: { gate: { image: x } }')
    mkdirSync(join(root, 'skills/summary'), { recursive: true })
    await on.grant('folder:main', 'mcp:send', 'team/**')
    await on.host.engine.transaction((tx) =>
      proxydRoutes.insert(tx, { path: '/gate/', redirect_to: '/mine', auth: 'public' }),
    )
    const before = await state()
    const added = await load()
    assert.deepEqual(await findConflicts(instance, added), [
      'services/gate.yml already exists',
      'skills/summary already exists',
      'other already has a service gate',
      'route /gate/ already exists',
      'grant folder:main mcp:send on team/** already exists',
    ])
    await assert.rejects(
      install(added),
      isRefusal('conflict', /^gate: route \/gate\/ already exists; grant folder:main/),
    )
    assert.deepEqual(await state(), before)
  })

  test('are not upgraded or silently removed where the operator has changed them', async (t) => {
    const { on, instance, root, load, install, upgrade, remove } = await packageHost(t, engine)
    await install(await load())
    writeFileSync(join(root, 'services/gate/config.yaml'), 'mine: 1\n')
    rmSync(join(root, 'skills/summary/more/example.md'))
    await on.host.engine.transaction((tx) => proxydRoutes.update(tx, { path: '/gate/' }, { auth: 'public' }))
    await on.ungrant('folder:main', 'mcp:send', 'team/**')
    const row = await mustFindInstalled(instance, 'gate')
    assert.deepEqual(await findDirtyParts(instance, row), [
      'services/gate/config.yaml was changed',
      'skills/summary/more/example.md was removed',
      'route /gate/ was changed',
      'grant folder:main mcp:send on team/** was removed',
    ])
    await assert.rejects(
      upgrade(await load(CHANGED_PACKAGE)),
      isRefusal('conflict', /route \/gate\/ was changed since it was/),
    )
    assert.equal(readFileSync(join(root, 'services/gate/config.yaml'), 'utf8'), 'mine: 1\n')
    assert.deepEqual(await remove(), [
      'kept route /gate/: it was changed since',
      'kept services/gate/config.yaml: it was changed since',
    ])
    assert.deepEqual(Object.keys(listTree(root, (path) => /^(services|skills|packages)/.test(path))), [
      'services',
      'services/gate',
      'services/gate/config.yaml',
      'skills',
    ])
    assert.equal((await on.host.engine.read((tx) => proxydRoutes.find(tx, { path: '/gate/' })))?.auth, 'public')
  })

  test('are replaced and removed by force in spite of changes', async (t) => {
    const { on, root, load, install, upgrade, remove, state } = await packageHost(t, engine)
    const before = await state()
    await install(await load())
    writeFileSync(join(root, 'services/gate/config.yaml'), 'mine: 1\n')
    await on.host.engine.transaction((tx) => proxydRoutes.update(tx, { path: '/gate/' }, { auth: 'public' }))
    await upgrade(await load(), true)
    assert.equal(readFileSync(join(root, 'services/gate/config.yaml'), 'utf8'), 'a: 1\n')
    assert.equal((await on.host.engine.read((tx) => proxydRoutes.find(tx, { path: '/gate/' })))?.auth, 'operator')
    writeFileSync(join(root, 'services/gate.yml'), 'mine')
    assert.deepEqual(await remove(true), [])
    assert.deepEqual(await state(), before)
  })

  test('leave the skills and changes of agents alone', async (t) => {
    const { root, load, install, upgrade, remove } = await packageHost(t, engine)
    const [main, team] = ['main', 'team'].map((folder) => join(root, 'groups', folder, '.claude/skills'))
    assert.ok(main && team)
    mkdirSync(join(main, 'summary'))
    writeFileSync(join(main, 'summary/SKILL.md'), 'my own\n')
    assert.deepEqual(await install(await load()), [
      "kept .claude/skills/summary of main: it is the agent's own or was changed by it",
    ])
    writeFileSync(join(team, 'summary/SKILL.md'), 'changed\n')
    writeFileSync(join(team, 'summary/notes.md'), 'my notes\n')
    assert.deepEqual(await upgrade(await load(CHANGED_PACKAGE)), [
      "kept .claude/skills/summary of main: it is the agent's own or was changed by it",
      "kept .claude/skills/summary/SKILL.md of team: it is the agent's own or was changed by it",
    ])
    assert.equal(existsSync(join(team, 'review/SKILL.md')), true)
    await remove()
    assert.deepEqual(Object.keys(listTree(main)), ['summary', 'summary/SKILL.md'])
    assert.deepEqual(Object.keys(listTree(team)), ['summary', 'summary/SKILL.md', 'summary/notes.md'])
    assert.equal(readFileSync(join(team, 'summary/SKILL.md'), 'utf8'), 'changed\n')
  })

  test('write nothing through links that agents have planted', async (t) => {
    const { root, load, install, remove, on } = await packageHost(t, engine)
    const outside = join(root, 'outside')
    mkdirSync(outside)
    const skills = join(root, 'groups/team/.claude/skills')
    rmSync(skills, { recursive: true })
    symlinkSync(outside, skills)
    mkdirSync(join(root, 'groups/main/.claude/skills/summary'))
    writeFileSync(join(root, 'groups/main/.claude/skills/summary/.package'), 'gate\n')
    symlinkSync(join(outside, 'victim'), join(root, 'groups/main/.claude/skills/summary/SKILL.md'))
    const notes = await install(await load())
    assert.match(notes.join('\n'), /skipped the workspace of team: /)
    assert.deepEqual(listTree(outside), {})
    await on.groups('other')
    await remove()
    assert.deepEqual(listTree(outside), {})
  })

  test('are copied into the workspaces of later groups, and removed from them', async (t) => {
    const { instance, on, root, load, install, remove } = await packageHost(t, engine)
    await install(await load())
    await on.cli.call(groupsResource.verbs.add, { folder: 'later' })
    await setUpFolder(instance.layout, 'later')
    const skills = join(root, 'groups/later/.claude/skills')
    assert.deepEqual(Object.keys(listTree(skills)), [
      'summary',
      'summary/.package',
      'summary/SKILL.md',
      'summary/more',
      'summary/more/example.md',
    ])
    await remove()
    assert.deepEqual(listTree(skills), {})
  })
})
