// Groups that agents make: where they may lie, what comes with them, and that nothing is left of one that failed.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { type Agents, agents } from '../../test/support/agents.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { acl, aclMembership } from '../core/access/acl.ts'
import { AGENT_LIMITS } from '../core/access/agent-limits.ts'
import { groups } from '../core/groups/groups.ts'
import { routes } from '../core/routing/routes.ts'
import { scheduledTasks } from '../core/schedule/tasks.ts'

const tracesOf = ({ host }: Agents) =>
  host.engine.read(async (tx) => [
    ...(await groups.list(tx)).map(({ folder, name }) => `group ${folder} ${name}`),
    ...(await routes.list(tx)).map(({ seq, match, target }) => `route ${seq} ${match} ${target}`),
    ...(await scheduledTasks.list(tx)).map(({ id }) => `task ${id}`),
    ...(await aclMembership.list(tx)).map(({ subject, role }) => `member ${subject} ${role}`),
    `acl ${await acl.count(tx)}`,
  ])

function put(root: string, files: Record<string, string>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), content)
  }
}

onEveryEngine('register_group', (engine) => {
  test('makes a group with its route, tasks, membership and folder', async (t) => {
    const here = await agents(t, engine, ['main', 'team'])
    const before = await tracesOf(here)
    const team = await here.open('team')
    const asked = { jid: 'telegram:group/42', folder: 'team/a', name: 'The A' }
    assert.deepEqual(await team.call('register_group', asked), {
      registered: true,
      folder: 'team/a',
      jid: 'telegram:group/42',
    })
    const fresh = (await tracesOf(here)).filter((trace) => !before.includes(trace))
    assert.deepEqual(fresh, [
      'group team/a The A',
      'route 0 room=group/42 team/a',
      ...[0, 1, 2, 3, 4].map((number) => `task team/a-mem-${number}`),
      'member folder:team/a role:member',
    ])
    const home = join(here.root, 'groups/team/a')
    assert.ok(existsSync(join(home, 'PERSONA.md')) && !existsSync(join(home, 'logs')))
    assert.equal(await team.refusal('register_group', asked), 'there is a group team/a already')
    // Nothing was taken back of what was there.
    assert.deepEqual(
      (await tracesOf(here)).filter((trace) => !before.includes(trace)),
      fresh,
    )
    assert.ok(existsSync(home))
  })

  test('takes everything back when the folder cannot be made', async (t) => {
    const here = await agents(t, engine, ['main', 'team'])
    const before = await tracesOf(here)
    const team = await here.open('team')
    // A turn that ends meanwhile does not keep it from cleaning up.
    await here.begin({ id: 'turn-1', folder: 'team' })
    const inTurn = await here.open('team', { turn: { id: 'turn-1', fence: 1 } })
    writeFileSync(join(here.root, 'groups/team/taken'), '')
    for (const session of [team, inTurn])
      assert.match(
        await session.refusal('register_group', { jid: 'telegram:1', folder: 'team/taken' }),
        /^cannot make the directory groups\/team\/taken: something else is there$/,
      )
    assert.equal(
      await team.refusal('register_group', { jid: 'telegram:1', fromPrototype: true }),
      'no prototype dir: there is no directory /home/node/prototype',
    )
    assert.deepEqual(await tracesOf(here), before)
    assert.deepEqual(readdirSync(join(here.root, 'groups/team')).toSorted(), ['.claude', 'PERSONA.md', 'taken'])
    assert.deepEqual(readdirSync(join(here.root, 'web/pub/team')), [])
  })
})

test('a prototype is copied with its modes and without links, and is called after the chat', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team'])
  put(join(here.root, 'groups/team/prototype'), { 'PERSONA.md': 'A seller.\n', 'facts/a.md': '1', 'bin/x': '#!' })
  put(here.root, { 'secret.txt': 'secret' })
  symlinkSync(join(here.root, 'secret.txt'), join(here.root, 'groups/team/prototype/link'))
  symlinkSync(here.root, join(here.root, 'groups/team/prototype/away'))
  const team = await here.open('team')
  const made = await team.call('register_group', { jid: 'Telegram:Group/4.2'.replace('T', 't'), fromPrototype: true })
  assert.deepEqual(made, { registered: true, folder: 'team/telegram_group_42', jid: 'telegram:Group/4.2' })
  const home = join(here.root, 'groups/team/telegram_group_42')
  assert.equal(readFileSync(join(home, 'PERSONA.md'), 'utf8'), 'A seller.\n')
  assert.equal(readFileSync(join(home, 'facts/a.md'), 'utf8'), '1')
  assert.equal(statSync(join(home, 'bin/x')).mode & 0o777, 0o644)
  assert.deepEqual(readdirSync(home).toSorted(), ['.claude', 'PERSONA.md', 'bin', 'facts'])
  const row = await here.host.engine.read((tx) => groups.find(tx, { folder: 'team/telegram_group_42' }))
  assert.equal(row?.name, 'telegram:Group/4.2')
})

test('a prototype that is a link, or lies in a workspace that leads elsewhere, is none', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'other'])
  put(join(here.root, 'groups/other/prototype'), { 'secret.md': 'secret' })
  symlinkSync(join(here.root, 'groups/other/prototype'), join(here.root, 'groups/team/prototype'))
  const team = await here.open('team')
  assert.match(await team.refusal('register_group', { jid: 'telegram:1', fromPrototype: true }), /^no prototype dir/)
})

test('a folder makes its own children, and the root no top-level folders', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a', 'other'])
  await here.route('room=42', 'other')
  const [root, team] = [await here.open('main'), await here.open('team')]
  const before = await tracesOf(here)
  const jid = 'telegram:1'
  for (const [args, said] of [
    [{ jid }, 'folder required when fromPrototype is false'],
    [{ jid, folder: 'team/a/b' }, 'register_group: not permitted: team/a/b is not directly below team'],
    [{ jid, folder: 'other/x' }, 'register_group: not permitted: other/x is not directly below team'],
    [{ jid, folder: 'new' }, 'register_group: not permitted: new is not directly below team'],
    [{ jid, folder: 'x', parent: 'other' }, 'register_group: not permitted: other/x is not directly below team'],
    [
      { jid, folder: 'team/x', parent: 'other' },
      'folder must be directly below parent, and team/x is not directly below other',
    ],
    [{ jid, folder: 'team/../x' }, /^folder must be names/],
    [{ jid, folder: 'team/share' }, 'folder must not use the reserved name share'],
    [{ jid, folder: 'team/x', fromPrototype: 'yes' }, 'fromPrototype must be true or false'],
    [{ jid: 'telegram:4*', folder: 'team/x' }, /^jid must not contain blanks/],
    [{ jid: 'telegram:ж', fromPrototype: true, parent: 'team/a' }, /is not directly below team$/],
    [{ jid: 'telegram:42', folder: 'team/x' }, /the chat telegram:42 belongs to a folder outside team$/],
    [{ jid: 'web:other', folder: 'team/x' }, /the chat web:other belongs to a folder outside team$/],
  ] as const) {
    const text = await team.refusal('register_group', args)
    if (typeof said === 'string') assert.equal(text, said)
    else assert.match(text, said)
  }
  assert.match(await root.refusal('register_group', { jid, folder: 'new' }), /with svc group add$/)
  assert.equal(await root.refusal('register_group', { jid, folder: 'none/x' }), 'there is no group none')
  assert.deepEqual(await tracesOf(here), before)
  // Anywhere below, though: also in a folder of its own.
  await root.call('register_group', { jid, folder: 'x', parent: 'team/a' })
  await root.call('register_group', { jid: 'telegram:2', folder: 'main/x' })
  await team.call('register_group', { jid: 'telegram:3', folder: 'x', parent: 'team' })
  const folders = (await here.host.engine.read((tx) => groups.list(tx))).map(({ folder }) => folder)
  assert.deepEqual(folders, ['main', 'main/x', 'other', 'team', 'team/a', 'team/a/x', 'team/x'])
})

test('a group has no more children than its max_children', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a', 'team/a/b'])
  const team = await here.open('team')
  const limited = (max_children: unknown) =>
    here.host.engine.transaction((tx) =>
      groups.update(tx, { folder: 'team' }, { container_config: JSON.stringify({ max_children }) }),
    )
  const register = { jid: 'telegram:1', folder: 'team/x' }
  await limited(0)
  assert.equal(await team.refusal('register_group', register), 'spawning disabled (max_children=0)')
  await limited(1)
  assert.equal(await team.refusal('register_group', register), 'max_children limit reached (1)')
  await limited('many')
  assert.equal(await team.refusal('register_group', register), 'max_children of team is not a number')
  await limited(2)
  await team.call('register_group', register)
})

onEveryEngine('the groups below a folder', (engine) => {
  test('are as many as the setting says, at any depth together', async (t) => {
    const here = await agents(t, engine, ['main', 'team', 'team/a', 'team0', 'team-b', 'team-b/x'])
    Object.assign(here.host, { limits: { ...AGENT_LIMITS, groupsPerFolder: 3 } })
    const [team, child, root] = [await here.open('team'), await here.open('team/a'), await here.open('main')]
    await team.call('register_group', { jid: 'telegram:1', folder: 'team/b' })
    await child.call('register_group', { jid: 'telegram:2', folder: 'team/a/x' })
    const before = await tracesOf(here)
    const full =
      'team has 3 groups below it, which is the maximum\nhint: an operator can remove some, or raise GROUPS_PER_FOLDER'
    assert.equal(await team.refusal('register_group', { jid: 'telegram:3', folder: 'team/c' }), full)
    assert.equal(await child.refusal('register_group', { jid: 'telegram:3', folder: 'team/a/y' }), full)
    assert.equal(await root.refusal('register_group', { jid: 'telegram:3', folder: 'team/c' }), full)
    assert.deepEqual(await tracesOf(here), before)
    await root.call('register_group', { jid: 'telegram:4', folder: 'team-b/y' })
    Object.assign(here.host, { limits: { ...AGENT_LIMITS, groupsPerFolder: 0 } })
    await team.call('register_group', { jid: 'telegram:3', folder: 'team/c' })
  })
})
