// Tests of export and apply as commands; the rules of manifests have tests of their own.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'

onEveryEngine('svc export and apply', (engine) => {
  test('apply a changed export and keep links', async (t) => {
    const cli = await demoCliOn(t, engine)
    const file = join(cli.dir, 'config.yaml')
    await cli.ok('group demo add slack:1 team')
    await cli.ok('token demo issue chat team')
    const written = await cli.run(['export', 'demo', file])
    assert.deepEqual([written.code, written.stdout], [0, ''])
    assert.equal(written.stderr, `wrote ${file} (${statSync(file).size} bytes)\n`)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.equal((await cli.run('export demo')).stdout, readFileSync(file, 'utf8'))
    assert.match(readFileSync(file, 'utf8'), /^config_version: 1\n/)

    const changed = readFileSync(file, 'utf8').replace(
      /^onboarding_gates:.*\n/m,
      'onboarding_gates:\n  - spec: team\n    daily_limit: 5\n    enabled: true\n',
    )
    writeFileSync(file, changed)
    const plan = '+ onboarding_gates team\n'
    assert.equal(
      await cli.ok(['apply', 'demo', file, '--dry-run']),
      `${plan}would apply ${file}; config_version: 1 -> 2\n`,
    )
    assert.equal(await cli.ok('gate demo list'), '')
    assert.equal(await cli.ok(['apply', 'demo', file]), `${plan}applied ${file}; config_version: 1 -> 2\n`)
    assert.match(await cli.ok('gate demo list'), /^team\t5\tyes$/m)
    assert.match(await cli.ok('token demo list team'), /^web:team\t/m)
    assert.match(await cli.ok('group demo list'), /^team\t/m)
  })

  test('a dry run prints the values of changed rows before and after', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('gate demo add team 5')
    const stdin = 'config_version: 1\nonboarding_gates:\n  - {spec: team, daily_limit: 7, enabled: true}\n'
    assert.equal(
      await cli.ok('apply demo - --dry-run', { stdin }),
      '~ onboarding_gates team\n    daily_limit: 5 -> 7\nwould apply -; config_version: 1 -> 2\n',
    )
  })

  test('apply exits with 2 for another version, which --force ignores', async (t) => {
    const cli = await demoCliOn(t, engine)
    const manifest = 'config_version: 7\nonboarding_gates: []\n'
    const stale = await cli.run('apply demo -', { stdin: manifest })
    assert.deepEqual([stale.code, stale.stdout], [2, ''])
    assert.equal(
      stale.stderr,
      'svc: config_version mismatch: the manifest has 7, the store 1\n' +
        'hint: every apply raises it by one; svc export demo writes a manifest with the current one, --force skips this check\n',
    )
    assert.equal((await cli.run('apply demo - --dry-run', { stdin: manifest })).code, 2)
    assert.equal(
      await cli.ok('apply demo - --force --dry-run', { stdin: manifest }),
      'would apply -; nothing would change but config_version: 1 -> 2\n',
    )
    assert.equal(
      await cli.ok('apply demo - --force', { stdin: manifest }),
      'applied -; nothing changed but config_version: 1 -> 2\n',
    )
  })

  test('apply creates the folder of a new group from its product', async (t) => {
    const cli = await demoCliOn(t, engine)
    const exported = (await cli.run('export demo')).stdout
    const group = '  - folder: team/new\n    name: New\n    product: support\n    open: true\n'
    const stdin = exported.replace(/^groups:\n/m, `groups:\n${group}`)
    const { code, stderr } = await cli.run('apply demo -', { stdin })
    assert.deepEqual([code, stderr], [0, 'created the directory of team/new\n'])
    assert.ok(statSync(join(cli.dir, 'svc_demo/groups/team/new/PERSONA.md')).isFile())
    assert.match(await cli.ok('doctor demo'), /✓ groups/)
  })

  test('only apply increments the version', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('gate demo add team 5')
    await cli.ok('group demo grant github:1 **')
    assert.match(await cli.ok('export demo'), /^config_version: 1\n/)
  })
})

suite('svc apply', () => {
  test('refuses an unreadable file', async (t) => {
    const cli = await demoCli(t)
    const path = (name: string): string => join(cli.dir, name)
    mkdirSync(path('folder'))
    execFileSync('mkfifo', [path('fifo')])
    symlinkSync(path('loop'), path('loop'))
    writeFileSync(path('huge'), '')
    execFileSync('truncate', ['-s', '1G', path('huge')])
    const cases: Record<string, RegExp> = {
      missing: /cannot read \S+: it does not exist/,
      folder: /it is a directory/,
      fifo: /it is not a regular file/,
      loop: /links form a loop/,
      huge: /it is larger than 67108864 bytes/,
    }
    for (const [name, sentence] of Object.entries(cases)) {
      const { code, stderr } = await cli.run(['apply', 'demo', path(name)])
      assert.equal(code, 1, name)
      assert.match(stderr, sentence)
    }
  })

  test('refuses an invalid manifest with line numbers and exit code 1', async (t) => {
    const cli = await demoCli(t)
    const cases: [string | Uint8Array, RegExp][] = [
      ['', /svc: /],
      ['config_version: 1\ngates: []\n', /line 2: .*gates/],
      ['config_version: 1\nonboarding_gates:\n  - spec: x\n    daily_limit: 0\n    enabled: true\n', /line 3|line 4/],
      ['onboarding_gates: []\n', /config_version/],
      ['config_version: 1\ngroups:\n', /line 2: groups: main is missing: it cannot be removed/],
      ['config_version: one\n', /config_version/],
      ['config_version: -1\n', /svc: /],
      ['config_version: 9223372036854775808\n', /svc: /],
      [Uint8Array.of(0x61, 0x0a, 0xff), /line 2: invalid UTF-8/],
    ]
    for (const [stdin, sentence] of cases) {
      const { code, stdout, stderr } = await cli.run('apply demo -', { stdin })
      assert.deepEqual([code, stdout], [1, ''], String(stdin))
      assert.match(stderr, sentence)
    }
    assert.match(await cli.ok('export demo'), /^config_version: 1\n/)
  })

  test('lists what a deleted group removes and keeps, what a new one inherits, and how to purge it', async (t) => {
    const cli = await demoCli(t)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('token demo issue chat team')
    const main = 'groups:\n  - {folder: main, name: main, product: assistant, open: true}\n'
    const without = `config_version: 1\n${main}scheduled_tasks:\n`
    const purge = 'svc group demo rm team --purge'
    const left = '1 route (room=1), 1 role (role:member)'
    const effects = `  group team: deleted with it: 1 link (web:team)\n  group team: kept: ${left}; ${purge} deletes them\n`
    const planned = await cli.ok('apply demo - --dry-run', { stdin: without })
    assert.ok(planned.includes(effects), planned)
    await cli.ok('group demo rm team')
    const back = `config_version: 1\n${main}  - {folder: team, name: team, product: assistant, open: true}\nscheduled_tasks:\n`
    const added = await cli.ok('apply demo -', { stdin: back })
    assert.ok(
      added.includes(`  group team: inherited from a deleted group: ${left}; ${purge} before apply deletes them\n`),
      added,
    )
  })

  test('warns of rows for folders that are not groups, and names the command that removes them', async (t) => {
    const cli = await demoCli(t)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('group demo rm team')
    const exported = await cli.ok('export demo')
    assert.deepEqual((await cli.run('apply demo -', { stdin: exported })).stderr, '')
    await cli.ok('group demo rm team --purge --yes')
    const { code, stderr } = await cli.run('apply demo - --force', { stdin: exported })
    assert.equal(code, 0)
    assert.match(
      stderr,
      /^warning: team is not a group: 1 route \(room=1\), 5 tasks \(.*\), 1 role \(role:member\); svc group demo rm team --purge deletes them\n$/,
    )
    const emptied = 'config_version: 3\nweb_hosts:\n  - {hostname: docs.example, folder: docs}\n'
    assert.match(
      (await cli.run('apply demo -', { stdin: emptied })).stderr,
      /^warning: docs is not a group: 1 web host /,
    )
    assert.equal(await cli.ok('group demo rm docs --purge --yes'), 'removed: 1 web host (docs.example)\n')
  })

  test('warns if it would remove the last operator', async (t) => {
    const cli = await demoCli(t)
    await cli.ok('group demo grant github:1 **')
    const stdin = 'config_version: 1\nacl_membership: []\n'
    const { code, stdout, stderr } = await cli.run('apply demo - --dry-run', { stdin })
    assert.equal(code, 0)
    assert.match(stdout, /^- acl_membership /m)
    assert.match(stderr, /^warning: .*operator/)
  })

  test('refuses unknown flags and missing arguments', async (t) => {
    const cli = await demoCli(t)
    for (const line of ['apply demo x --forse', 'apply demo x --dryrun', 'export demo --json', 'apply demo'])
      assert.equal((await cli.run(line)).code, 1, line)
  })
})

suite('svc export', () => {
  test('refuses and does not change anything but a regular file', async (t) => {
    const cli = await demoCli(t)
    for (const path of ['/dev/null', '/dev/full', cli.dir]) {
      const { code, stderr } = await cli.run(['export', 'demo', path])
      assert.equal(code, 1)
      assert.match(stderr, /it is not a regular file/)
    }
    assert.ok(statSync('/dev/null').isCharacterDevice())
    const lost = await cli.run(['export', 'demo', join(cli.dir, 'no/such/file')])
    assert.match(lost.stderr, /^svc: cannot write \S+: its directory does not exist\n/)
  })

  test('writes to the target of a link and leaves no temporary file', async (t) => {
    const cli = await demoCli(t)
    const [file, link] = [join(cli.dir, 'config.yaml'), join(cli.dir, 'latest.yaml')]
    writeFileSync(file, 'old')
    chmodSync(file, 0o644)
    symlinkSync(file, link)
    await cli.ok(['export', 'demo', link])
    assert.match(readFileSync(file, 'utf8'), /^config_version: 1\n/)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.deepEqual(readdirSync(cli.dir).sort(), ['config.yaml', 'latest.yaml', 'svc_demo'])
  })

  test('never contains a secret or a token', async (t) => {
    const cli = await demoCli(t)
    await cli.ok('secret demo set main K --value -', { stdin: 's3cret' })
    const token = /^token: (\S+)$/m.exec(await cli.ok('token demo issue chat main'))?.[1] ?? 'none'
    const text = await cli.ok('export demo')
    assert.match(text, /key: K\n/)
    assert.ok(!text.includes('s3cret') && !text.includes(token))
  })
})
