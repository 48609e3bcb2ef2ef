import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { demoCli, demoCliOn, testCli } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { loginWithBrowser, remoteServer } from '../../../test/support/remote-server.ts'

onEveryEngine('svc login with a person', (engine) => {
  test('prints only a link at localhost on stdout, and what to do about a person without a grant', async (t) => {
    const cli = await demoCliOn(t, engine)
    const { code, stdout, stderr } = await cli.run('login demo local:ada')
    assert.equal(code, 0)
    assert.match(stdout, /^http:\/\/localhost:8080\/auth\/link\/[\w-]{43}\n$/)
    assert.equal(
      stderr,
      'valid for 15 minutes, once; it leads to the account page\n' +
        'warning: local:ada may do nothing yet: svc group demo grant local:ada <folder> lets them administer a folder\n' +
        'demo is not being served on this machine: svc serve demo\n',
    )
    await cli.ok('group demo grant local:ada main')
    await cli.ok('group demo grant local:root **')
    for (const sub of ['local:ada', 'local:root'])
      assert.doesNotMatch((await cli.run(`login demo ${sub}`)).stderr, /warning/)
  })

  test('leaves an audit row that names the person and has no token', async (t) => {
    const cli = await demoCliOn(t, engine)
    const token = /[\w-]{43}/.exec(await cli.ok('login demo local:ada'))?.[0] ?? assert.fail()
    const audit = await cli.ok('audit demo')
    assert.match(audit, /\tsessions\.create_link\tlocal:ada\t/)
    assert.ok(!audit.includes(token))
  })
})

suite('svc login', () => {
  test('prints the host name that all links have, also if that is an IP address', async (t) => {
    const cli = await demoCli(t)
    const env = join(cli.root, '.env')
    writeFileSync(env, readFileSync(env, 'utf8').replace(/^WEB_HOST=.*$/m, 'WEB_HOST=http://127.0.0.1:9000'))
    assert.match(await cli.ok('login demo local:ada'), /^http:\/\/127\.0\.0\.1:9000\/auth\/link\//)
  })

  const WRONG: Record<string, string> = {
    'login demo cli:root': 'svc: "cli:root" is not an account of a person\n',
    'login demo role:operator': 'svc: "role:operator" is not an account of a person\n',
    'login demo ada': 'svc: sub must look like provider:id, such as github:42\n',
    'login demo': 'svc: give the person to sign in, such as local:operator, or --url\n',
    'login demo --device': 'svc: --device needs --url\n',
    'login demo local:ada --url http://localhost': 'svc: give a person or --url, not both',
    'login prod --url http://svc.example.com': 'svc: --url "http://svc.example.com" is not encrypted\n',
    'login prod --url svc.example.com': 'svc: --url "svc.example.com" is not a web address\n',
    'login demo --url https://svc.example.com': 'svc: demo is an instance of this machine',
    'logout prod': 'svc: you are not signed in to prod\n',
  }
  test('explains arguments that cannot work', async (t) => {
    const cli = await demoCli(t)
    for (const [line, message] of Object.entries(WRONG)) {
      const { code, stdout, stderr } = await cli.run(line)
      assert.deepEqual([code, stdout], [1, ''], line)
      assert.ok(stderr.startsWith(message), `${line}: ${stderr}`)
    }
    assert.ok(!existsSync(join(cli.dir, 'svc_prod')))
  })

  test('signs in by browser, keeps the tokens private, and signs out', async (t) => {
    const [server, laptop] = [await demoCli(t), testCli(t)]
    const remote = await remoteServer(t, server)
    const pages: string[] = []
    const { code, stdout, stderr } = await loginWithBrowser(laptop, `login prod --url ${remote.base}/`, pages)
    assert.deepEqual([code, stdout], [0, ''], stderr)
    assert.match(stderr, new RegExp(`signed in to ${remote.base}; `))
    assert.deepEqual(pages, ['You are signed in. You can close this window.\n'])
    const [dir, file] = [join(laptop.dir, 'svc_prod'), join(laptop.dir, 'svc_prod/remote.json')]
    assert.deepEqual([statSync(dir).mode & 0o777, statSync(file).mode & 0o777], [0o700, 0o600])
    assert.match(await laptop.ok('list'), new RegExp(`^prod\tremote\t${remote.base}\t`, 'm'))
    const token = remote.refreshToken
    assert.equal(await laptop.ok('logout prod'), `signed out of prod (${remote.base})\n`)
    assert.equal(remote.forms.at(-1)?.token, token)
    assert.ok(!existsSync(dir))
  })

  test('ends the previous session when the person signs in again', async (t) => {
    const [server, laptop] = [await demoCli(t), testCli(t)]
    const remote = await remoteServer(t, server)
    for (let time = 0; time < 2; time++) await loginWithBrowser(laptop, `login prod --url ${remote.base}`)
    assert.equal(remote.forms.at(-1)?.token, 'refresh-1')
    assert.equal(remote.refreshToken, 'refresh-2')
    assert.match(await laptop.ok('session prod list'), /^ID\t|^$/)
  })

  test('deletes the tokens of a server that does not respond', async (t) => {
    const laptop = testCli(t)
    const dir = join(laptop.dir, 'svc_prod')
    mkdirSync(dir)
    const signIn = { base: 'http://127.0.0.1:3', access_token: 'a.b.c', refresh_token: 'r', expires_ms: 1 }
    writeFileSync(join(dir, 'remote.json'), JSON.stringify(signIn))
    const { code, stderr } = await laptop.run('logout prod')
    assert.equal(code, 1)
    assert.match(stderr, /^warning: the tokens are deleted, but the session .*: no server listens at http:/)
    assert.ok(!existsSync(dir))
  })

  test('signs in with a device code and keeps polling while the server says so', async (t) => {
    const [server, laptop] = [await demoCli(t), testCli(t)]
    const remote = await remoteServer(t, server)
    remote.pollErrors.push('authorization_pending')
    const options = { stopped: new Promise<void>(() => {}) }
    const { code, stderr } = await laptop.run(`login prod --url ${remote.base} --device`, options)
    assert.equal(code, 0, stderr)
    assert.match(stderr, new RegExp(`^ {2}${remote.base}/auth/device$[\\s\\S]*^ {2}WXYZ-1234$`, 'm'))
    remote.pollErrors.push('access_denied')
    const denied = await laptop.run(`login other --url ${remote.base} --device`, options)
    assert.match(denied.stderr, /\nsvc: the sign-in was refused in the browser\n$/)
    assert.ok(!existsSync(join(laptop.dir, 'svc_other')))
  })

  test('saves nothing after Ctrl-C', async (t) => {
    const [server, laptop] = [await demoCli(t), testCli(t)]
    const remote = await remoteServer(t, server)
    for (const flag of ['', ' --device']) {
      const stop = Promise.withResolvers<void>()
      const heardError = (): void => stop.resolve()
      const options = { heardError, stopped: stop.promise }
      const { code, stderr } = await laptop.run(`login prod --url ${remote.base}${flag}`, options)
      assert.equal(code, 130)
      assert.match(stderr, /\nstopped; nothing was saved\n$/)
    }
    assert.ok(!existsSync(join(laptop.dir, 'svc_prod')))
  })

  test('refuses a server that is another issuer or answers for one', async (t) => {
    const [server, laptop] = [await demoCli(t), testCli(t)]
    const remote = await remoteServer(t, server)
    const line = `login prod --url ${remote.base}`
    remote.callback = { iss: 'https://evil.example' }
    const pages: string[] = []
    const mixedUp = await loginWithBrowser(laptop, line, pages)
    assert.match(mixedUp.stderr, /does not respond like svc/)
    assert.match(pages[0] ?? '', /^Signing in failed: /)
    remote.callback = { error: 'access_denied', code: '' }
    assert.match((await loginWithBrowser(laptop, line)).stderr, /refused in the browser/)
    remote.metadata = { issuer: 'https://evil.example' }
    const other = await loginWithBrowser(laptop, line)
    assert.match(other.stderr, new RegExp(`^svc: the server at ${remote.base} calls itself https://evil\\.example\n`))
    assert.ok(!existsSync(join(laptop.dir, 'svc_prod')))
  })

  test('says which server does not respond', async (t) => {
    const cli = testCli(t)
    const { code, stderr } = await cli.run('login prod --url http://127.0.0.1:3', { stopped: new Promise(() => {}) })
    assert.deepEqual([code, stderr], [1, 'svc: no server listens at http://127.0.0.1:3\n'])
  })
})
