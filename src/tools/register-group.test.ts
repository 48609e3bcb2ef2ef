// register_group: allowed folders, the rows and files of a new group, and the rollback of a failed one.
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

const rowsOf = ({ host }: Agents) =>
  host.engine.read(async (tx) => [
    ...(await groups.list(tx)).map(({ folder, name }) => `group ${folder} ${name}`),
    ...(await routes.list(tx)).map(({ seq, match, target }) => `route ${seq} ${match} ${target}`),
    ...(await scheduledTasks.list(tx)).map(({ id }) => `task ${id}`),
    ...(await aclMembership.list(tx)).map(({ subject, role }) => `member ${subject} ${role}`),
    `acl ${await acl.count(tx)}`,
  ])

function writeFiles(root: string, files: Record<string, string>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), content)
  }
}

onEveryEngine('register_group', (engine) => {
  test('creates a group with its route, tasks, membership and folder', async (t) => {
    const here = await agents(t, engine, ['main', 'team'])
    const before = await rowsOf(here)
    const team = await here.open('team')
    const args = { jid: 'telegram:group/42', folder: 'team/a', name: 'The A' }
    assert.deepEqual(await team.call('register_group', args), {
      registered: true,
      folder: 'team/a',
      jid: 'telegram:group/42',
    })
    const fresh = (await rowsOf(here)).filter((row) => !before.includes(row))
    assert.deepEqual(fresh, [
      'group team/a The A',
      'route 0 room=group/42 team/a',
      ...[0, 1, 2, 3, 4].map((number) => `task team/a-mem-${number}`),
      'member folder:team/a role:member',
    ])
    const home = join(here.root, 'groups/team/a')
    assert.ok(existsSync(join(home, 'PERSONA.md')) && !existsSync(join(home, 'logs')))
    assert.equal(await team.refusal('register_group', args), 'there is a group team/a already')
    // The refused call removed nothing of the existing group.
    assert.deepEqual(
      (await rowsOf(here)).filter((row) => !before.includes(row)),
      fresh,
    )
    assert.ok(existsSync(home))
  })

  test('removes all rows when the folder cannot be created', async (t) => {
    const here = await agents(t, engine, ['main', 'team'])
    const before = await rowsOf(here)
    const team = await here.open('team')
    // The cleanup also works in a call that names its turn.
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
    assert.deepEqual(await rowsOf(here), before)
    assert.deepEqual(readdirSync(join(here.root, 'groups/team')).toSorted(), ['.claude', 'PERSONA.md', 'data', 'taken'])
    assert.deepEqual(readdirSync(join(here.root, 'web/pub/team')), [])
  })
})

test('copies a prototype without links and names the folder after the chat', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team'])
  writeFiles(join(here.root, 'groups/team/prototype'), {
    'PERSONA.md': 'A seller.\n',
    'facts/a.md': '1',
    'bin/x': '#!',
  })
  writeFiles(here.root, { 'secret.txt': 'secret' })
  symlinkSync(join(here.root, 'secret.txt'), join(here.root, 'groups/team/prototype/link'))
  symlinkSync(here.root, join(here.root, 'groups/team/prototype/away'))
  const team = await here.open('team')
  const made = await team.call('register_group', { jid: 'Telegram:Group/4.2'.replace('T', 't'), fromPrototype: true })
  assert.deepEqual(made, { registered: true, folder: 'team/telegram_group_42', jid: 'telegram:Group/4.2' })
  const home = join(here.root, 'groups/team/telegram_group_42')
  assert.equal(readFileSync(join(home, 'PERSONA.md'), 'utf8'), 'A seller.\n')
  assert.equal(readFileSync(join(home, 'facts/a.md'), 'utf8'), '1')
  assert.equal(statSync(join(home, 'bin/x')).mode & 0o777, 0o644)
  assert.deepEqual(readdirSync(home).toSorted(), ['.claude', 'PERSONA.md', 'bin', 'data', 'facts'])
  const row = await here.host.engine.read((tx) => groups.find(tx, { folder: 'team/telegram_group_42' }))
  assert.equal(row?.name, 'telegram:Group/4.2')
})

test('refuses a prototype that is a symbolic link', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'other'])
  writeFiles(join(here.root, 'groups/other/prototype'), { 'secret.md': 'secret' })
  symlinkSync(join(here.root, 'groups/other/prototype'), join(here.root, 'groups/team/prototype'))
  const team = await here.open('team')
  assert.match(await team.refusal('register_group', { jid: 'telegram:1', fromPrototype: true }), /^no prototype dir/)
})

test('a folder creates only its own children, and the root no top-level folders', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a', 'other'])
  await here.route('room=42', 'other')
  const [root, team] = [await here.open('main'), await here.open('team')]
  const before = await rowsOf(here)
  const jid = 'telegram:1'
  for (const [args, expected] of [
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
    if (typeof expected === 'string') assert.equal(text, expected)
    else assert.match(text, expected)
  }
  assert.match(await root.refusal('register_group', { jid, folder: 'new' }), /with svc group add$/)
  assert.equal(await root.refusal('register_group', { jid, folder: 'none/x' }), 'there is no group none')
  assert.deepEqual(await rowsOf(here), before)
  // The root may create groups anywhere below the top level.
  await root.call('register_group', { jid, folder: 'x', parent: 'team/a' })
  await root.call('register_group', { jid: 'telegram:2', folder: 'main/x' })
  await team.call('register_group', { jid: 'telegram:3', folder: 'x', parent: 'team' })
  const folders = (await here.host.engine.read((tx) => groups.list(tx))).map(({ folder }) => folder)
  assert.deepEqual(folders, ['main', 'main/x', 'other', 'team', 'team/a', 'team/a/x', 'team/x'])
})

test('a group has no more children than its max_children', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a', 'team/a/b'])
  const team = await here.open('team')
  const setLimit = (max_children: unknown) =>
    here.host.engine.transaction((tx) =>
      groups.update(tx, { folder: 'team' }, { container_config: JSON.stringify({ max_children }) }),
    )
  const register = { jid: 'telegram:1', folder: 'team/x' }
  await setLimit(0)
  assert.equal(await team.refusal('register_group', register), 'spawning disabled (max_children=0)')
  await setLimit(1)
  assert.equal(await team.refusal('register_group', register), 'max_children limit reached (1)')
  await setLimit('many')
  assert.equal(await team.refusal('register_group', register), 'max_children of team is not a number')
  await setLimit(2)
  await team.call('register_group', register)
})

onEveryEngine('GROUPS_PER_FOLDER', (engine) => {
  test('limits the number of groups below a top-level folder at any depth', async (t) => {
    const here = await agents(t, engine, ['main', 'team', 'team/a', 'team0', 'team-b', 'team-b/x'])
    Object.assign(here.host, { limits: { ...AGENT_LIMITS, groupsPerFolder: 3 } })
    const [team, child, root] = [await here.open('team'), await here.open('team/a'), await here.open('main')]
    await team.call('register_group', { jid: 'telegram:1', folder: 'team/b' })
    await child.call('register_group', { jid: 'telegram:2', folder: 'team/a/x' })
    const before = await rowsOf(here)
    const full =
      'team has 3 groups below it, which is the maximum\nhint: an operator can remove some, or raise GROUPS_PER_FOLDER'
    assert.equal(await team.refusal('register_group', { jid: 'telegram:3', folder: 'team/c' }), full)
    assert.equal(await child.refusal('register_group', { jid: 'telegram:3', folder: 'team/a/y' }), full)
    assert.equal(await root.refusal('register_group', { jid: 'telegram:3', folder: 'team/c' }), full)
    assert.deepEqual(await rowsOf(here), before)
    await root.call('register_group', { jid: 'telegram:4', folder: 'team-b/y' })
    Object.assign(here.host, { limits: { ...AGENT_LIMITS, groupsPerFolder: 0 } })
    await team.call('register_group', { jid: 'telegram:3', folder: 'team/c' })
  })
})
