import assert from 'node:assert/strict'
import { once } from 'node:events'
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { type Cli, demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'
import { listTree, PACKAGE, packageDir, packageRepository } from '../../../test/support/package-files.ts'
import { layout } from '../../core/layout.ts'
import { withPackageLock } from '../../deploy/packages/package-lock.ts'

const filesOf = (cli: Cli): Record<string, string> => listTree(cli.root, (path) => !/^(store|ipc|logs)/.test(path))

onEveryEngine('svc packages', (engine) => {
  test('installs a directory, lists it, upgrades it and removes it without a trace', async (t) => {
    const cli = await demoCliOn(t, engine)
    const dir = packageDir(t)
    const [files, rows] = [filesOf(cli), await cli.ok('export demo')]
    const installed = await cli.run(`packages demo install ${dir} --yes`)
    assert.equal(installed.code, 0, installed.stderr)
    assert.match(
      installed.stdout,
      /^gate: A gateway for tests\.\nsource .*, revision [0-9a-f]{40}\n\+ file services\/gate\.yml\n/,
    )
    for (const line of [
      '+ file services/gate/config.yaml',
      '+ file skills/summary/SKILL.md',
      '+ service gate (example/gate:1.2)',
      '+ host api.example.com',
      '+ route /gate/ -> http://gate:4000 (operator)',
      '+ grant folder:main mcp:send on team/**',
      '+ skill summary in every workspace',
      `  setting GATE_KEY (required in ${cli.root}/.env): The key of the gateway`,
    ])
      assert.ok(installed.stdout.split('\n').includes(line), line)
    assert.match(installed.stdout, /\ninstalled gate at revision [0-9a-f]{40}\n$/)
    assert.match(installed.stderr, /next: svc generate demo writes the services, then svc run demo applies them/)
    const [first] = JSON.parse(await cli.ok('packages demo list --json'))
    assert.deepEqual([first.name, first.state, first.source], ['gate', 'installed', dir])
    assert.match(await cli.ok('packages demo list'), /^NAME\tSTATE\tREVISION\tSOURCE\ngate\tinstalled\t[0-9a-f]{12}\t/)
    assert.match(await cli.ok('packages demo upgrade gate'), /gate is up to date, at revision .*; nothing changed/)

    writeFileSync(join(dir, 'files/config.yaml'), 'a: 2\n')
    const upgraded = await cli.ok('packages demo upgrade gate --yes')
    assert.match(upgraded, /\n~ file services\/gate\/config\.yaml\n/)
    assert.match(upgraded, /\nupgraded gate from revision \w+ to \w+\n$/)
    assert.equal(readFileSync(join(cli.root, 'services/gate/config.yaml'), 'utf8'), 'a: 2\n')

    assert.match(
      await cli.ok('packages demo remove gate --yes'),
      /\n- grant folder:main mcp:send on team\/\*\*\n[\s\S]*\nremoved gate\n$/,
    )
    assert.deepEqual(filesOf(cli), files)
    assert.equal(await cli.ok('export demo'), rows)
  })
})

suite('svc packages', () => {
  test('asks before it writes, and writes nothing without an answer', async (t) => {
    const cli = await demoCli(t)
    const dir = packageDir(t)
    const before = filesOf(cli)
    const piped = await cli.run(`packages demo install ${dir}`)
    assert.equal(piped.code, 1)
    assert.match(piped.stderr, /install needs confirmation, but stdin is not a terminal\nhint: add --yes to confirm/)
    const refused = await cli.run(`packages demo install ${dir}`, { typed: ['n'] })
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /install gate\? \[y\/N\][\s\S]*stopped: nothing was changed/)
    const dry = await cli.run(`packages demo install ${dir} --dry-run`)
    assert.equal(dry.code, 0)
    assert.match(dry.stderr, /dry run: nothing was changed/)
    assert.deepEqual(filesOf(cli), before)
    await cli.ok(`packages demo install ${dir}`, { typed: ['y'] })
    assert.equal((await cli.run('packages demo remove gate', { typed: [''] })).code, 1)
    assert.equal(existsSync(join(cli.root, 'services/gate.yml')), true)
  })

  test('refuses what conflicts, is unknown or was changed, and says what to type', async (t) => {
    const cli = await demoCli(t)
    const dir = packageDir(t)
    const fails = async (line: string, message: RegExp): Promise<void> => {
      const { code, stderr } = await cli.run(line)
      assert.deepEqual([code, message.test(stderr)], [1, true], stderr)
    }
    await fails('packages demo install litellm --yes', /there is no directory .*litellm/)
    await fails('packages demo add nothing --yes', /there is no bundled package nothing; there is: litellm/)
    await fails('packages demo add ../../etc --yes', /is not the name of a package/)
    await fails('packages demo remove ../docker-compose --yes', /the package \.\.\/docker-compose is not installed/)
    await fails('packages demo upgrade gate', /the package gate is not installed/)
    mkdirSync(join(cli.root, 'services'))
    writeFileSync(join(cli.root, 'services/gate.yml'), 'mine')
    await fails(
      `packages demo install ${dir} --yes`,
      /gate: services\/gate\.yml already exists\nhint: .*nothing was changed/,
    )
    rmSync(join(cli.root, 'services'), { recursive: true })
    await cli.ok(`packages demo install ${dir} --yes`)
    await fails(`packages demo install ${dir} --yes`, /already installed\nhint: svc packages demo upgrade gate/)
    appendFileSync(join(cli.root, 'services/gate/config.yaml'), 'b: 1\n')
    await fails('packages demo upgrade gate --yes', /services\/gate\/config\.yaml was changed\nhint: --force replaces/)
    writeFileSync(join(dir, 'package.toml'), (PACKAGE['package.toml'] ?? '').replace('"gate"', '"other"'))
    await fails('packages demo upgrade gate --yes --force', /now contains the package other, not gate/)
    const removed = await cli.run('packages demo remove gate --yes')
    assert.match(removed.stderr, /services\/gate\/config\.yaml was changed since it was installed: it is kept/)
    assert.doesNotMatch(removed.stdout, /- file services\/gate\/config\.yaml/)
    assert.equal(readFileSync(join(cli.root, 'services/gate/config.yaml'), 'utf8'), 'a: 1\nb: 1\n')
    assert.match(await cli.ok('packages demo list'), /^litellm\tavailable/m)
  })

  test('shows local fragments, and accepts the settings of services in .env', async (t) => {
    const cli = await demoCli(t)
    appendFileSync(join(cli.root, '.env'), 'GATE_KEY=x\n')
    assert.match((await cli.run('packages demo list')).stderr, /unknown key GATE_KEY/)
    mkdirSync(join(cli.root, 'services'))
    writeFileSync(
      join(cli.root, 'services/mine.yml'),
      'services: { a: { image: x } }\nx-svc: { settings: [GATE_KEY] }\n',
    )
    const { stdout, stderr } = await cli.run('packages demo list')
    assert.match(stdout, /^mine\tlocal\t\tservices\/mine\.yml$/m)
    assert.doesNotMatch(stderr, /unknown key/)
  })

  test('undoes a change that was killed, of which svc generate warns', async (t) => {
    const cli = await demoCli(t)
    mkdirSync(join(cli.root, 'packages/gate'), { recursive: true })
    const journal = { name: 'gate', after: { revision: '1', hashes: { 'services/gate.yml': 'x' } }, force: false }
    writeFileSync(join(cli.root, 'packages/gate/journal.json'), JSON.stringify(journal))
    assert.match((await cli.run('generate demo')).stderr, /not finished: svc packages demo list completes or undoes it/)
    assert.match((await cli.run('packages demo list')).stderr, /undid the install of gate, which was interrupted/)
    assert.equal(existsSync(join(cli.root, 'packages')), false)
    assert.doesNotMatch((await cli.run('generate demo')).stderr, /not finished/)
  })

  test('lets only one command change an instance', async (t) => {
    const cli = await demoCli(t)
    await withPackageLock(layout(cli.root), async () => {
      const { code, stderr } = await cli.run('packages demo add litellm --yes')
      assert.deepEqual([code, /another svc packages command is changing this instance/.test(stderr)], [1, true], stderr)
      assert.match(await cli.ok('packages demo list'), /litellm\tavailable/)
    })
    await cli.ok('packages demo add litellm --yes')
  })

  test('installs the model gateway that ships with it', async (t) => {
    const cli = await demoCli(t)
    const shown = await cli.ok('packages demo add litellm --yes')
    assert.match(shown, /\+ route \/litellm\/ -> http:\/\/litellm:4000 \(operator\)/)
    assert.match(shown, /setting LITELLM_MASTER_KEY \(required/)
    assert.match(readFileSync(join(cli.root, 'services/litellm/config.yaml'), 'utf8'), /^model_list:/m)
    assert.equal((await cli.run('packages demo upgrade litellm')).code, 0)
  })

  test('installs from git and upgrades to a later commit', needs('git'), async (t) => {
    const cli = await demoCli(t)
    const repository = packageRepository(t)
    const first = repository.publish()
    const installed = await cli.run(`packages demo install git+${repository.url} --yes`)
    assert.equal(installed.code, 0, installed.stderr)
    assert.match(installed.stdout, new RegExp(`installed gate at revision ${first}\n$`))
    writeFileSync(join(repository.dir, 'skills/summary/SKILL.md'), '# Another\n')
    const second = repository.publish()
    const upgraded = await cli.ok('packages demo upgrade gate --yes')
    assert.match(upgraded, new RegExp(`upgraded gate from revision ${first} to ${second}\n$`))
    const copy = join(cli.root, 'groups/main/.claude/skills/summary/SKILL.md')
    assert.equal(readFileSync(copy, 'utf8'), '# Another\n')
    rmSync(repository.url.slice('file://'.length), { recursive: true })
    const { code, stderr } = await cli.run('packages demo upgrade gate --yes')
    assert.deepEqual([code, /cannot fetch git\+file:.*does not appear to be a git repository/.test(stderr)], [1, true])
  })

  test('says that a server does not answer', needs('git'), async (t) => {
    const cli = await demoCli(t)
    const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
    t.after(() => server.close())
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    const { code, stderr } = await cli.run(`packages demo install https://127.0.0.1:${port}/x.git --yes`)
    assert.equal(code, 1)
    assert.match(stderr, /^svc: cannot fetch https:\/\/127\.0\.0\.1:\d+\/x\.git: fatal: unable to access/m)
  })
})
