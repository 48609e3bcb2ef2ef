import assert from 'node:assert/strict'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { type Cli, demoCli, testCli } from '../../../test/support/cli.ts'
import { loginWithBrowser, type RemoteServer, remoteServer } from '../../../test/support/remote-server.ts'
import { until } from '../../../test/support/until.ts'

interface Machines {
  /** Has the instance `demo`. */
  readonly server: Cli
  /** Is signed in to it under the same name, as the operator github:1. */
  readonly laptop: Cli
  readonly remote: RemoteServer
  readonly file: string
}

async function signedIn(t: TestContext): Promise<Machines> {
  const [server, laptop] = [await demoCli(t), testCli(t)]
  await server.ok('group demo grant github:1 **')
  const remote = await remoteServer(t, server)
  const { code, stderr } = await loginWithBrowser(laptop, `login demo --url ${remote.base}`)
  assert.equal(code, 0, stderr)
  return { server, laptop, remote, file: join(laptop.dir, 'svc_demo/remote.json') }
}

suite('a remote instance', () => {
  test('lists tokens, invites, routes, tasks and the audit log like its own machine', async (t) => {
    const { server, laptop } = await signedIn(t)
    await server.ok('group demo add sandbox:lobby team')
    const context = ['token', 'demo', 'issue', 'chat', 'team', 'site', '--context', 'a\tb']
    await server.ok(context)
    await server.ok('token demo issue webhook main ci --verify github --verify-secret -', { stdin: 'secret of ci' })
    await server.ok('invite demo create team/** --expires 1h')
    const lines = [
      'token demo list',
      'token demo list team',
      'invite demo list',
      'route demo list',
      'task demo list',
      'audit demo',
    ]
    for (const line of lines.flatMap((text) => [text, `${text} --json`])) {
      const expected = await server.run(line)
      assert.equal(expected.code, 0, line)
      assert.deepEqual(await laptop.run(line), expected, line)
    }
  })

  test('changes tokens, invites, routes and tasks', async (t) => {
    const { server, laptop } = await signedIn(t)
    await server.ok('group demo add sandbox:lobby team')
    const minted = await laptop.ok('token demo issue chat team')
    assert.match(minted, /^jid: web:team\ntoken: [\w-]{43}\nurl: http:\/\/localhost:8080\/chat\//)
    assert.match(await laptop.ok('token demo issue webhook team ci'), /^jid: hook:team\/ci\n/)
    assert.equal(await laptop.ok('token demo revoke hook:team/ci'), 'revoked hook:team/ci (1 token)\n')
    const invite = await laptop.ok('invite demo create team/**')
    const token = /^token: (\S+)$/m.exec(invite)?.[1] ?? assert.fail(invite)
    assert.equal(await laptop.ok(`invite demo revoke ${token}`), 'revoked the invite\n')
    const added = await laptop.run(['route', 'demo', 'add', 'room=lobby', 'nowhere', '--seq', '-3'])
    assert.match(added.stdout, /^added route \d+: room=lobby -> nowhere \(seq -3\)\n$/)
    assert.match(added.stderr, /there is no group nowhere yet/)
    const id = /route (\d+)/.exec(added.stdout)?.[1]
    assert.match(await laptop.ok(`route demo rm ${id}`), /^removed route/)
    const task = /^(main-\S+)\t/m.exec(await laptop.ok('task demo list'))?.[1] ?? assert.fail()
    assert.equal(await laptop.ok(`task demo pause ${task}`), `task ${task}: active -> paused\n`)
    assert.equal(await laptop.ok(`task demo pause ${task}`), `task ${task} is paused; nothing changed\n`)
    assert.equal(await laptop.ok(`task demo resume ${task}`), `task ${task}: paused -> active\n`)
    assert.equal(await laptop.ok(`task demo rm ${task}`), `removed task ${task}\n`)
    assert.match(await server.ok('audit demo'), /\tgithub:1\trest\troute_tokens\.issue_chat\t/)
  })

  test('refuses like its own machine, with the same message and code', async (t) => {
    const { server, laptop } = await signedIn(t)
    const lines = [
      'token demo revoke web:nothing',
      'route demo rm 99',
      'task demo rm nothing',
      'invite demo revoke nothing',
    ]
    lines.push('token demo list nothing', 'token demo issue chat nothing')
    for (const line of lines) {
      const expected = await server.run(line)
      assert.equal(expected.code, 1, line)
      assert.deepEqual(await laptop.run(line), expected, line)
    }
  })

  test('shows only what the person may see', async (t) => {
    const [server, laptop] = [await demoCli(t), testCli(t)]
    await server.ok('group demo add sandbox:lobby team')
    await server.ok('group demo grant github:2 team')
    for (const folder of ['main', 'team']) await server.ok(`token demo issue chat ${folder}`)
    const remote = await remoteServer(t, server)
    remote.sub = 'github:2'
    await loginWithBrowser(laptop, `login demo --url ${remote.base}`)
    assert.match(await laptop.ok('token demo list'), /^JID.*\nweb:team\t.*\n$/)
    assert.equal((await laptop.run('token demo list main')).stderr, 'no tokens of main\n')
    assert.equal((await laptop.run('token demo list nothing')).stderr, 'no tokens of nothing\n')
    const denied = await laptop.run('token demo issue chat main')
    assert.deepEqual([denied.code, denied.stdout], [1, ''])
    assert.match(denied.stderr, /^svc: issue_chat_link: not permitted on main/)
  })

  test('says which commands work only on its own machine', async (t) => {
    const { laptop, remote } = await signedIn(t)
    const lines = [
      'group demo grants',
      'task demo show main-mem-0',
      'secret demo list main',
      'doctor demo',
      'login demo local:ada',
    ]
    lines.push('token demo issue webhook main ci --verify github --verify-secret -', 'backup demo x.tar')
    for (const line of lines) {
      const { code, stderr } = await laptop.run(line, { stdin: 'a secret' })
      assert.equal(code, 1, line)
      assert.equal(
        stderr,
        `svc: this works only on the machine of the instance; demo is at ${remote.base}\n` +
          'hint: run it there, for example: ssh 127.0.0.1 svc …\n',
        line,
      )
    }
  })

  test('renews an expired access token and writes the new one', async (t) => {
    const { laptop, remote, file } = await signedIn(t)
    remote.expiresInS = 1
    const before = readFileSync(file, 'utf8')
    writeFileSync(file, before.replace(/"expires_ms": \d+/, '"expires_ms": 1'), { mode: 0o600 })
    await laptop.ok('route demo list')
    await laptop.ok('route demo list')
    assert.deepEqual(
      remote.forms.filter(({ grant_type }) => grant_type === 'refresh_token').map((form) => form.refresh_token),
      ['refresh-1', 'refresh-2'],
    )
    assert.equal(JSON.parse(readFileSync(file, 'utf8')).refresh_token, 'refresh-3')
    assert.equal(statSync(file).mode & 0o777, 0o600)
  })

  test('renews an access token that the server refuses before its time', async (t) => {
    const { laptop, file } = await signedIn(t)
    const signIn = JSON.parse(readFileSync(file, 'utf8'))
    writeFileSync(file, JSON.stringify({ ...signIn, access_token: 'a.b.c' }))
    assert.equal((await laptop.run('route demo list')).code, 0)
    assert.notEqual(JSON.parse(readFileSync(file, 'utf8')).access_token, 'a.b.c')
  })

  test('uses the tokens that a parallel command has renewed', async (t) => {
    const { laptop, remote, file } = await signedIn(t)
    const signIn = JSON.parse(readFileSync(file, 'utf8'))
    writeFileSync(file, JSON.stringify({ ...signIn, access_token: 'a.b.c' }))
    // The refresh token is used up, and the file of the parallel command arrives during the refresh.
    remote.refreshToken = 'refresh-of-the-other'
    const other = JSON.stringify({ ...signIn, refresh_token: 'refresh-of-the-other' })
    remote.onRefresh = () => writeFileSync(file, other)
    assert.equal((await laptop.run('route demo list')).code, 0)
    assert.equal(readFileSync(file, 'utf8'), other)
  })

  test('does not write its tokens over newer ones', async (t) => {
    const { laptop, remote, file } = await signedIn(t)
    const signIn = JSON.parse(readFileSync(file, 'utf8'))
    writeFileSync(file, JSON.stringify({ ...signIn, expires_ms: 1 }))
    const newer = JSON.stringify({ ...signIn, refresh_token: 'newer' })
    remote.onRefresh = () => writeFileSync(file, newer)
    assert.equal((await laptop.run('route demo list')).code, 0)
    assert.equal(readFileSync(file, 'utf8'), newer)
  })

  test('asks to sign in again after the session was revoked', async (t) => {
    const { laptop, remote, file } = await signedIn(t)
    remote.refreshToken = undefined
    const signIn = JSON.parse(readFileSync(file, 'utf8'))
    writeFileSync(file, JSON.stringify({ ...signIn, access_token: 'a.b.c' }))
    assert.deepEqual(await laptop.run('route demo list'), {
      code: 1,
      stdout: '',
      stderr: `svc: you are not signed in to demo any more\nhint: svc login demo --url ${remote.base}\n`,
    })
  })

  test('names the server that does not respond or is not svc', async (t) => {
    const { laptop, file, remote } = await signedIn(t)
    const signIn = JSON.parse(readFileSync(file, 'utf8'))
    writeFileSync(file, JSON.stringify({ ...signIn, base: 'http://127.0.0.1:3' }))
    assert.equal((await laptop.run('route demo list')).stderr, 'svc: no server listens at http://127.0.0.1:3\n')
    writeFileSync(file, JSON.stringify({ ...signIn, base: `${remote.base}/.well-known` }))
    assert.match((await laptop.run('route demo list')).stderr, /^svc: /)
    writeFileSync(file, '{}')
    assert.match((await laptop.run('route demo list')).stderr, /remote\.json is damaged\n/)
  })

  test('follows its audit log', async (t) => {
    const { server, laptop } = await signedIn(t)
    const stop = Promise.withResolvers<void>()
    let printed = ''
    const heard = (text: string): void => {
      printed += text
      if (printed.includes('create_link')) stop.resolve()
    }
    const following = laptop.run('audit demo --follow', { heard, stopped: stop.promise })
    await until(() => printed !== '')
    await server.ok('login demo local:ada')
    assert.equal((await following).code, 0)
  })
})
