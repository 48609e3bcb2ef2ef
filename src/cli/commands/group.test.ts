import assert from 'node:assert/strict'
import { existsSync, readdirSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { after, suite, test } from 'node:test'
import { type Cli, demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'

const LEFT =
  '1 route (room=1), 5 tasks (team-mem-0, team-mem-1, team-mem-2, team-mem-3, team-mem-4), 1 secret (API_KEY), 1 role (role:member)'

/** The routes in the order in which they are tried. */
async function readRoutes(cli: Cli): Promise<string[]> {
  const exported = await cli.ok('export demo')
  return [...exported.matchAll(/- seq: (.*)\n +match: (.*)\n +target: (.*)/g)].map((found) =>
    found.slice(1).join(' ').replaceAll('"', ''),
  )
}

onEveryEngine('svc group', (engine) => {
  test('list prints folder, tab and name, sorted and without a header', async (t) => {
    const cli = await demoCliOn(t, engine)
    for (const folder of ['b', 'a/x', 'a']) await cli.ok(`group demo add web:${folder} ${folder}`)
    const expected = 'a\ta\na/x\tx\nb\tb\nmain\tmain\n'
    assert.equal(await cli.ok('group demo list'), expected)
    assert.equal(await cli.ok('group demo list', { terminal: true }), expected)
    assert.deepEqual(
      JSON.parse(await cli.ok('group demo list --json')).map(({ folder }: { folder: string }) => folder),
      ['a', 'a/x', 'b', 'main'],
    )
  })

  test('add creates folder, tasks and route, and changes nothing the second time', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.equal(await cli.ok('group demo add slack:T1/C2 team --product support'), 'added group slack:T1/C2 -> team\n')
    assert.ok(statSync(join(cli.root, 'groups/team/.claude/skills/triage-ticket/SKILL.md')).isFile())
    const before = await cli.ok('export demo')
    assert.match(before, /product: support/)
    assert.match(before, /match: room=T1\/C2\n/)
    assert.match(await cli.ok('group demo add slack:T1/C2 team --product assistant'), /already exist; nothing changed/)
    assert.equal(await cli.ok('export demo'), before)
    assert.match(await cli.ok('group demo add slack:T1/C3 team'), /already exists; added its route from slack:T1\/C3/)
  })

  test('add does not copy files of another product to an existing group', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team --product support')
    const facts = (): string[] => readdirSync(join(cli.root, 'groups/team/facts'))
    const before = facts()
    await cli.ok('group demo add slack:2 team')
    await cli.ok('group demo add slack:3 team --product assistant')
    assert.deepEqual(facts(), before)
  })

  test('add refuses a room with glob characters or blanks, and creates no folder', async (t) => {
    const cli = await demoCliOn(t, engine)
    for (const jid of ['slack:*', 'slack:a b', 'slack:[', 'slack:a?', 'slack:a\\']) {
      const { code, stderr } = await cli.run(['group', 'demo', 'add', jid, 'odd'])
      assert.deepEqual([code, stderr.startsWith('svc: jid must not contain')], [1, true], stderr)
    }
    assert.ok(!existsSync(join(cli.root, 'groups/odd')))
  })

  test('add routes mentions of a guild channel, observes its other messages, and routes direct messages', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add discord:1/2 team')
    await cli.ok('group demo add discord:dm/7 friend')
    const exported = await cli.ok('export demo')
    assert.match(exported, /match: room=1\/2 verb=mention\n\s+target: team\n/)
    assert.match(exported, /match: room=1\/2\n\s+target: .?team#observe/)
    assert.match(exported, /match: room=dm\/7\n\s+target: friend\n/)
  })

  test('rm deletes the group, lists what it removes and keeps, and reports a missing group', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('token demo issue chat team')
    await cli.ok('secret demo set team API_KEY --value -', { stdin: 'x' })
    assert.equal(
      await cli.ok('group demo rm team'),
      `removed group team\nremoved with it: 1 link (web:team)\nkept: ${LEFT}; svc group demo rm team --purge removes them\n`,
    )
    assert.equal(await cli.ok('group demo list'), 'main\tmain\n')
    assert.ok(existsSync(join(cli.root, 'groups/team')), 'the folder stays')
    assert.match(await cli.ok('export demo'), /target: team/, 'the route stays')
    const again = await cli.run('group demo rm team')
    assert.deepEqual([again.code, again.stderr], [1, 'svc: there is no group team\n'])
  })

  test('rm --purge also removes what rm keeps, even of a deleted group, but never files', async (t) => {
    const cli = await demoCliOn(t, engine)
    const before = await cli.ok('export demo')
    const add = async (): Promise<void> => {
      await cli.ok('group demo add slack:1 team')
      await cli.ok('secret demo set team API_KEY --value -', { stdin: 'x' })
    }
    await add()
    assert.equal(await cli.ok('group demo rm team --purge --yes'), `removed group team\nremoved: ${LEFT}\n`)
    assert.equal(await cli.ok('export demo'), before)
    await add()
    await cli.ok('group demo rm team')
    assert.equal(await cli.ok('group demo rm team --purge -y'), `removed: ${LEFT}\n`)
    assert.equal(await cli.ok('export demo'), before)
    const again = await cli.run('group demo rm team --purge --yes')
    assert.deepEqual([again.code, again.stderr], [1, 'svc: there is no group team\n'])
    assert.ok(existsSync(join(cli.root, 'groups/team')), 'the folder stays')
  })

  test('add lists what a new group inherits from a deleted one of its name', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('secret demo set team API_KEY --value -', { stdin: 'x' })
    await cli.ok('group demo rm team')
    const again = await cli.run('group demo add slack:1 team')
    assert.equal(again.code, 0)
    assert.equal(
      again.stderr,
      `warning: team inherits from a deleted group of this name: ${LEFT}; ` +
        'to start without them: svc group demo rm team --purge, then add it again\n',
    )
    await cli.ok('group demo rm team --purge --yes')
    assert.equal((await cli.run('group demo add slack:1 team')).stderr, '')
  })

  test('add puts the platform into the route if another platform has a room of that name', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:lobby team')
    const other = await cli.run('group demo add telegram:lobby other')
    assert.equal(other.stdout, 'added group telegram:lobby -> other\n')
    assert.match(
      other.stderr,
      /^warning: slack:lobby has the same room name, so the route names the platform: platform=telegram room=lobby -> other\nwarning: route 1 \(seq 0, room=lobby -> team\) no longer gets messages of telegram:lobby\n$/,
    )
    const routes = await readRoutes(cli)
    assert.deepEqual(routes, ['-1 platform=telegram room=lobby other', '0 room=lobby team'])
    for (const line of ['group demo add telegram:lobby other', 'group demo add slack:lobby team']) {
      const { stdout, stderr } = await cli.run(line)
      assert.match(stdout, /nothing changed\n$/)
      assert.equal(stderr, '')
    }
    assert.deepEqual(await readRoutes(cli), routes)
    // So does another account of the platform, whose direct chats have the same rooms.
    await cli.ok('group demo add telegram-work:lobby fourth')
    // A third platform with the same room name gets a route of its own, too.
    await cli.ok('group demo add matrix:lobby third')
    assert.deepEqual(await readRoutes(cli), [
      '-1 platform=telegram room=lobby other',
      '-1 platform=telegram-work room=lobby fourth',
      '-1 platform=matrix room=lobby third',
      '0 room=lobby team',
    ])
  })

  test('add warns about a route that comes first, and --move puts the new route before it', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add sandbox:lobby team')
    const second = await cli.run('group demo add sandbox:lobby other')
    assert.equal(second.stdout, 'added group sandbox:lobby -> other\n')
    const warning =
      'warning: route 1 (seq 0, room=lobby -> team) comes first and gets messages of sandbox:lobby; ' +
      'svc group demo add sandbox:lobby other --move puts the route to other before it\n'
    assert.equal(second.stderr, warning)
    assert.deepEqual(await readRoutes(cli), ['0 room=lobby team', '0 room=lobby other'])
    assert.equal((await cli.run('group demo add sandbox:lobby other')).stderr, warning)
    const moved = await cli.run('group demo add sandbox:lobby other --move')
    assert.equal(moved.stdout, 'group other already exists; its route from sandbox:lobby now comes first\n')
    assert.equal(
      moved.stderr,
      'warning: route 1 (seq 0, room=lobby -> team) no longer gets messages of sandbox:lobby\n',
    )
    assert.deepEqual(await readRoutes(cli), ['-1 room=lobby other', '0 room=lobby team'])
    const again = await cli.run('group demo add sandbox:lobby other --move')
    assert.deepEqual([again.stdout.includes('nothing changed'), again.stderr], [true, ''])
    await cli.ok('group demo add sandbox:lobby third --move')
    assert.deepEqual(await readRoutes(cli), ['-2 room=lobby third', '-1 room=lobby other', '0 room=lobby team'])
  })

  test('grants are tab-separated, with operators as **', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.equal((await cli.run('group demo grants')).stderr, 'no grants\n')
    assert.equal(await cli.ok('group demo grant github:42 team/**'), 'granted github:42 admin -> team/**\n')
    assert.equal(await cli.ok('group demo grant github:7 **'), 'granted github:7 -> role:operator\n')
    assert.match(await cli.ok('group demo grant github:7 **'), /already granted; nothing changed/)
    assert.match(await cli.ok('group demo grant github:42 team/**'), /already granted; nothing changed/)
    const lines = (await cli.ok('group demo grants', { terminal: true })).split('\n').map((line) => line.split('\t'))
    assert.deepEqual(lines[0], ['SUB', 'PATTERN', 'GRANTED_AT'])
    assert.deepEqual(
      lines.slice(1, 3).map(([sub, pattern]) => [sub, pattern]),
      [
        ['github:42', 'team/**'],
        ['github:7', '**'],
      ],
    )
    assert.match(lines[1]?.[2] ?? '', /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    assert.equal((await cli.ok('group demo grants github:7')).split('\n').length, 3)
    assert.equal((await cli.run('group demo grants github:8')).stderr, 'no grants of github:8\n')
  })

  test('ungrant revokes a grant and reports a missing one', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo grant github:42 team/**')
    await cli.ok('group demo grant github:42 **')
    for (const pattern of ['team/**', '**']) {
      await cli.ok(`group demo ungrant github:42 ${pattern}`)
      assert.equal((await cli.run(`group demo ungrant github:42 ${pattern}`)).code, 1)
    }
    assert.equal(await cli.ok('group demo grants'), '')
  })
})

suite('svc group', () => {
  test('rm refuses main, even with --purge --yes', async (t) => {
    const cli = await demoCli(t)
    for (const line of ['group demo rm main', 'group demo rm main --purge', 'group demo rm main --purge --yes']) {
      const { code, stdout, stderr } = await cli.run(line, { typed: ['y'] })
      assert.deepEqual([code, stdout], [1, ''])
      assert.equal(stderr, 'svc: main is the root of the instance and cannot be removed\n')
    }
    assert.equal(await cli.ok('group demo list'), 'main\tmain\n')
  })

  test('rm --purge prompts on a terminal and needs --yes without one', async (t) => {
    const cli = await demoCli(t)
    await cli.ok('group demo add slack:1 team')
    const before = await cli.ok('export demo')
    const refused = await cli.run('group demo rm team --purge')
    assert.deepEqual([refused.code, refused.stdout], [1, ''])
    assert.match(refused.stderr, /stdin is not a terminal\nhint: add --yes to confirm\n$/)
    for (const answer of ['', 'n', 'team', 'yess']) {
      const { code, stdout, stderr } = await cli.run('group demo rm team --purge', { typed: [answer] })
      assert.deepEqual([code, stdout], [1, ''], answer)
      assert.match(
        stderr,
        /^this also removes 1 route \(room=1\), .*\nremove team and keep only its files\? \[y\/N\]:\nsvc: stopped: nothing was changed\n$/,
      )
    }
    assert.equal(await cli.ok('export demo'), before)
    assert.match(
      await cli.ok('group demo rm team --purge', { typed: ['Yes'] }),
      /^removed group team\nremoved: 1 route/,
    )
  })

  test('add warns about and moves both routes of a guild channel', async (t) => {
    const cli = await demoCli(t)
    await cli.ok('group demo add discord:1/2 team')
    const { stderr } = await cli.run('group demo add discord:1/2 other')
    assert.deepEqual(stderr.match(/route \d+ \([^)]*\) comes first/g), [
      'route 1 (seq -1, room=1/2 verb=mention -> team) comes first',
      'route 2 (seq 0, room=1/2 -> team#observe) comes first',
    ])
    await cli.ok('group demo add discord:1/2 other --move')
    assert.deepEqual(await readRoutes(cli), [
      '-3 room=1/2 verb=mention other',
      '-2 room=1/2 other#observe',
      '-1 room=1/2 verb=mention team',
      '0 room=1/2 team#observe',
    ])
  })
})

suite('svc group add refuses, and creates nothing for', () => {
  const cases: Record<string, [string, RegExp]> = {
    'an invalid folder': ['slack:1 ../up', /folder must be names of letters/],
    'an absolute folder': ['slack:1 /tmp/x', /folder/],
    'a reserved folder': ['slack:1 team/share', /reserved name share/],
    'a chat without a platform': ['room team', /jid must look like platform:room/],
    'a chat without a room': ['slack: team', /jid must look like platform:room/],
    'an unknown product': [
      'slack:1 team --product nope',
      /unknown product "nope": looked for .*\/products\/nope\/PRODUCT\.md/,
    ],
    'a product that is a path': ['slack:1 team --product ../assistant', /unknown product/],
  }
  for (const [what, [line, sentence]] of Object.entries(cases))
    test(what, async (t) => {
      const cli = await demoCli(t)
      const { code, stdout, stderr } = await cli.run(`group demo add ${line}`)
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, sentence)
      assert.deepEqual(readdirSync(join(cli.root, 'groups')), ['main'])
      assert.equal(await cli.ok('group demo list'), 'main\tmain\n')
    })

  test('a folder that an agent replaced by a link', async (t) => {
    const cli = await demoCli(t)
    const elsewhere = tempDir(t)
    symlinkSync(elsewhere, join(cli.root, 'groups/team'))
    const { code, stderr } = await cli.run('group demo add slack:1 team')
    assert.equal(code, 1)
    assert.deepEqual(readdirSync(elsewhere), [])
    assert.match(stderr, /something else is there/)
    assert.equal(await cli.ok('group demo list'), 'main\tmain\n')
  })
})

suite('svc group grant refuses grants that could never match', () => {
  const demo = demoCli({ after })
  const cases: [string[], RegExp][] = [
    [['github:1', '***'], /not a path glob/],
    [['github:1', '../'], /empty segment/],
    [['github:1', '../x'], /not a valid folder name/],
    [['github:1', ''], /scope must not be empty/],
    [['github:1', '['], /not a path glob/],
    [['github:1', 'a//b'], /empty segment/],
    [['alice', 'team'], /neither \*\* nor namespace:name/],
    [['', 'team'], /principal must not be empty/],
    [['alice', '**'], /must look like provider:id/],
    [['github:*', '**'], /must be one member/],
    [['github:', 'team'], /namespace:name/],
  ]
  for (const [[sub = '', pattern = ''], sentence] of cases)
    test(`${sub} ${pattern}`, async () => {
      const cli = await demo
      const { code, stderr } = await cli.run(['group', 'demo', 'grant', sub, pattern])
      assert.equal(code, 1)
      assert.match(stderr, sentence)
      assert.equal(await cli.ok('group demo grants'), '')
    })

  test('but accepts folders, roles and globs of principals, like acl rows', async (t) => {
    const cli = await demoCli(t)
    for (const sub of ['folder:team', 'role:staff', 'github:*', '**'])
      assert.match(await cli.ok(['group', 'demo', 'grant', sub, 'team/**']), /^granted/)
  })
})
