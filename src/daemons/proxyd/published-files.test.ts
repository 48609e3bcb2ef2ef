// Published files: normal requests and attacks.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { linkSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { testHost } from '../../../test/support/host.ts'
import { type ServedHost, sendRaw, serveHost, statusOf } from '../../../test/support/served-host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../../core/layout.ts'
import { bindWebHost } from '../../core/links/web-hosts.ts'
import { groupsResource } from '../../resources/groups.ts'
import { webRoutesResource } from '../../resources/web-routes.ts'
import { findFile, splitPath } from './published-files.ts'

interface Site extends ServedHost {
  readonly web: string
  write(path: string, text?: string | Uint8Array): void
  get(path: string, headers?: Record<string, string>): Promise<Response>
  publish(path_prefix: string, access: string, redirect_to?: string): Promise<unknown>
}

async function site(t: TestContext): Promise<Site> {
  const at = await testHost(t)
  const places = layout(tempDir(t))
  const front = await serveHost(t, { on: { ...at, host: { ...at.host, layout: places } }, daemons: ['proxyd'] })
  await front.groups('main', 'team', 'team/a', 'other')
  const write = (path: string, text: string | Uint8Array = path): void => {
    mkdirSync(dirname(join(places.web, path)), { recursive: true })
    writeFileSync(join(places.web, path), text)
  }
  for (const path of ['pub/team/x.txt', 'pub/team/index.html', 'pub/team/a/index.html', 'priv/team/x.txt']) write(path)
  return {
    ...front,
    web: places.web,
    write,
    get: (path, headers = {}) => fetch(front.url() + path, { headers, redirect: 'manual' }),
    publish: (path_prefix, access, redirect_to) =>
      front.cli.call(webRoutesResource.verbs.create, { path_prefix, access, redirect_to, folder: 'team' }),
  }
}

async function exact(front: ServedHost, target: string, host = 'a'): Promise<string> {
  return sendRaw(front.url(), `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
}

suite('published files', () => {
  test('are served with their type and the headers that isolate them from links', async (t) => {
    const front = await site(t)
    front.write('pub/team/page.HTML', '<script>1</script>')
    front.write('pub/team/ä b.json', '{}')
    const TYPES: Record<string, string> = {
      '/pub/team/x.txt': 'text/plain; charset=utf-8',
      '/pub/team/': 'text/html; charset=utf-8',
      '/pub/team/page.HTML': 'text/html; charset=utf-8',
      '/pub/team/%C3%A4%20b.json': 'application/json',
    }
    for (const [path, type] of Object.entries(TYPES)) {
      const { status, headers } = await front.get(path)
      assert.deepEqual([status, headers.get('content-type')], [200, type], path)
      assert.equal(headers.get('x-content-type-options'), 'nosniff')
      // A page with the origin of links could read their chats.
      assert.equal(headers.get('content-security-policy'), 'sandbox allow-scripts allow-forms allow-popups')
      assert.equal(headers.get('access-control-allow-origin'), '*')
      assert.equal(headers.get('access-control-allow-credentials'), null)
    }
    assert.equal(await (await front.get('/pub/team/x.txt?v=1')).text(), 'pub/team/x.txt')
    const head = await fetch(`${front.url()}/pub/team/x.txt`, { method: 'HEAD' })
    assert.deepEqual([head.status, head.headers.get('content-length')], [200, '14'])
    const post = await fetch(`${front.url()}/pub/team/x.txt`, { method: 'POST', body: 'x' })
    assert.deepEqual([post.status, post.headers.get('allow')], [405, 'GET, HEAD'])
  })

  test('large ones are streamed completely', async (t) => {
    const front = await site(t)
    const bytes = Buffer.alloc(5_000_000, Buffer.from(Uint8Array.from({ length: 251 }, (_, at) => at)))
    front.write('pub/team/large.bin', bytes)
    const answer = await front.get('/pub/team/large.bin')
    assert.equal(answer.headers.get('content-length'), '5000000')
    assert.ok(bytes.equals(Buffer.from(await answer.arrayBuffer())))
    front.write('pub/team/empty.txt', '')
    assert.equal((await (await front.get('/pub/team/empty.txt')).arrayBuffer()).byteLength, 0)
  })

  test('a directory redirects to its slash and serves its index', async (t) => {
    const front = await site(t)
    const bare = await front.get('/pub/team?x=1')
    assert.deepEqual([bare.status, bare.headers.get('location')], [308, '/pub/team/?x=1'])
    assert.equal(await (await front.get('/pub/team/a/')).text(), 'pub/team/a/index.html')
    front.write('pub/team/plain/x.txt')
    assert.equal((await front.get('/pub/team/plain/')).status, 404)
    assert.equal((await front.get('/pub/team/x.txt/')).status, 404)
    assert.equal((await front.get('/pub/team/none')).status, 404)
  })

  test('are not sent again to a client that has them', async (t) => {
    const front = await site(t)
    const { headers } = await front.get('/pub/team/x.txt')
    const [etag, modified] = [headers.get('etag') ?? '', headers.get('last-modified') ?? '']
    for (const known of [
      { 'If-None-Match': etag },
      { 'If-None-Match': `"x", W/${etag}` },
      { 'If-Modified-Since': modified },
    ]) {
      const answer = await front.get('/pub/team/x.txt', known)
      assert.deepEqual([answer.status, await answer.text()], [304, ''])
    }
    assert.equal(
      (await front.get('/pub/team/x.txt', { 'If-None-Match': '"x"', 'If-Modified-Since': modified })).status,
      200,
    )
    utimesSync(join(front.web, 'pub/team/x.txt'), 1e9, 1e9)
    assert.equal((await front.get('/pub/team/x.txt', { 'If-None-Match': etag })).status, 200)
  })

  const RANGES: Record<string, [status: number, text: string, range?: string]> = {
    'bytes=0-2': [206, 'pub', 'bytes 0-2/14'],
    'bytes=9-': [206, 'x.txt', 'bytes 9-13/14'],
    'bytes=-3': [206, 'txt', 'bytes 11-13/14'],
    'bytes=9-99': [206, 'x.txt', 'bytes 9-13/14'],
    'bytes=-99': [206, 'pub/team/x.txt', 'bytes 0-13/14'],
    'bytes=14-': [416, '', 'bytes */14'],
    'bytes=-0': [416, '', 'bytes */14'],
    'bytes=3-2': [200, 'pub/team/x.txt'],
    'bytes=0-1,3-4': [200, 'pub/team/x.txt'],
    'lines=0-1': [200, 'pub/team/x.txt'],
    'bytes=-': [200, 'pub/team/x.txt'],
  }
  test('support range requests', async (t) => {
    const front = await site(t)
    for (const [Range, [status, text, range]] of Object.entries(RANGES)) {
      const answer = await front.get('/pub/team/x.txt', { Range })
      assert.deepEqual([answer.status, answer.headers.get('content-range')], [status, range ?? null], Range)
      assert.equal(await answer.text(), text)
    }
    const other = await front.get('/pub/team/x.txt', { Range: 'bytes=0-2', 'If-Range': '"other"' })
    assert.equal(other.status, 200)
  })
})

suite('access to published files', () => {
  test('private ones are for people who may interact with their folder', async (t) => {
    const front = await site(t)
    front.write('priv/team/a/y.txt')
    await front.grant('github:1', 'admin', 'team')
    await front.grant('github:2', 'interact', 'team/a')
    await front.operator('github:9')
    await front.grant('service:routd', '*', '**')
    const seen = async (headers: Record<string, string>) =>
      Promise.all(
        ['/priv/team/x.txt', '/priv/team/a/y.txt', '/priv/none/x', '/priv/team/none'].map(
          async (path) => (await front.get(path, headers)).status,
        ),
      )
    const as = async (sub: string) => seen({ Authorization: `Bearer ${await front.bearer({ sub })}` })
    assert.deepEqual(await seen({}), [401, 401, 401, 401])
    assert.deepEqual(await as('github:1'), [200, 403, 403, 404])
    assert.deepEqual(await as('github:2'), [403, 200, 403, 403])
    assert.deepEqual(await as('github:3'), [403, 403, 403, 403])
    assert.deepEqual(await as('github:9'), [200, 200, 404, 404])
    const service = await front.bearer({ sub: 'service:routd', kind: 'service' })
    assert.deepEqual(await seen({ Authorization: `Bearer ${service}` }), [403, 403, 403, 403])
    const mine = await front.ask('/priv/team/x.txt', await front.bearer({ sub: 'github:1' }))
    assert.equal(mine.headers.get('cache-control'), 'private, no-cache')
    assert.equal(mine.headers.get('access-control-allow-origin'), null)
  })

  test('web routes of the folder take precedence, from the next request on', async (t) => {
    const front = await site(t)
    front.write('priv/team/press/x.txt')
    const bearer = await front.bearer({ sub: 'github:7' })
    assert.equal((await front.get('/pub/team/x.txt')).status, 200)
    await front.publish('/pub/team/x.txt', 'auth')
    assert.equal((await front.get('/pub/team/x.txt')).status, 401)
    assert.equal((await front.ask('/pub/team/x.txt', bearer)).status, 200)
    await front.cli.call(webRoutesResource.verbs.update, { path_prefix: '/pub/team/x.txt', access: 'deny' })
    assert.equal((await front.ask('/pub/team/x.txt', bearer)).status, 403)
    await front.cli.call(webRoutesResource.verbs.delete, { path_prefix: '/pub/team/x.txt' })
    assert.equal((await front.get('/pub/team/x.txt')).status, 200)
    await front.publish('/priv/team/press', 'public')
    assert.equal((await front.get('/priv/team/press/x.txt')).status, 200)
    assert.equal((await front.get('/priv/team/x.txt')).status, 401)
    await front.publish('/go/', 'redirect', '/pub/team/')
    assert.equal((await front.get('/go/x.txt?a=b')).headers.get('location'), '/pub/team/x.txt?a=b')
  })

  test('a web route outside the slots shows the public files of its folder', async (t) => {
    const front = await site(t)
    await front.publish('/shop', 'public')
    assert.equal((await front.get('/shop')).headers.get('location'), '/shop/')
    assert.equal(await (await front.get('/shop/')).text(), 'pub/team/index.html')
    assert.equal(await (await front.get('/shop/x.txt')).text(), 'pub/team/x.txt')
    assert.equal(statusOf(await exact(front, '/shop/../pub/team/x.txt')), 404)
  })

  test('a row about a file holds for every spelling, alias, host, index and symbolic link', async (t) => {
    const front = await site(t)
    await front.host.engine.transaction((tx) => bindWebHost(tx, 'team.example', 'team'))
    for (const path of ['secret/x.txt', 'members/x.txt', 'shown/index.html', 'a b!/x.txt'])
      front.write(`pub/team/${path}`)
    const team = join(front.web, 'pub/team')
    symlinkSync('secret', join(team, 'linked'))
    symlinkSync('members/x.txt', join(team, 'linked.txt'))
    await front.publish('/pub/team/secret/', 'deny')
    await front.publish('/pub/team/shown/index.html', 'deny')
    await front.publish('/pub/team/members', 'auth')
    await front.publish('/docs/', 'public')
    for (const path of [
      '/pub/team/secret/x.txt',
      '/pub/team/%73ecret/x.txt',
      '/%70ub/%74eam/%73%65%63%72%65%74/x.txt',
      '/docs/secret/x.txt',
      '/d%6Fcs/secre%74/x.txt',
      '/pub/team/linked/x.txt',
      '/docs/linked/x.txt',
      '/pub/team/shown/',
      '/docs/shown/index.html',
      '/docs/shown/',
    ])
      assert.equal(statusOf(await exact(front, path)), 403, path)
    for (const path of ['/secret/x.txt', '/%73ecret/x.txt', '/linked/x.txt'])
      assert.equal(statusOf(await exact(front, path, 'team.example')), 403, path)
    for (const path of ['/pub/team/member%73/x.txt', '/docs/members/x.txt', '/docs/linked.txt', '/pub/team/linked.txt'])
      assert.equal(statusOf(await exact(front, path)), 401, path)
    const bearer = { Authorization: `Bearer ${await front.bearer({ sub: 'github:5' })}` }
    const linked = await front.get('/pub/team/linked.txt', bearer)
    assert.deepEqual([linked.status, linked.headers.get('cache-control')], [200, 'private, no-cache'])
    assert.match(await exact(front, '/docs/x.txt'), /pub\/team\/x\.txt$/)
    assert.match(await exact(front, '/pub/team/%61%20b%21/x.txt'), /a b!\/x\.txt$/)
  })

  test('a symbolic link to a file of a folder below needs the rights of that folder', async (t) => {
    const front = await site(t)
    front.write('priv/team/a/x.txt')
    symlinkSync('a/x.txt', join(front.web, 'priv/team/below.txt'))
    await front.publish('/priv/team/below.txt', 'public')
    assert.equal(statusOf(await exact(front, '/priv/team/below.txt')), 401)
    await front.grant('github:6', 'interact', 'team')
    const bearer = { Authorization: `Bearer ${await front.bearer({ sub: 'github:6' })}` }
    assert.equal((await front.get('/priv/team/below.txt', bearer)).status, 403)
  })

  test('a mapped host shows its folder at the root, and links and the API as usual', async (t) => {
    const front = await site(t)
    await front.host.engine.transaction((tx) => bindWebHost(tx, 'team.example', 'team'))
    for (const host of ['team.example', 'TEAM.example:8080', 'team.example.'])
      assert.match(await exact(front, '/x.txt', host), /pub\/team\/x\.txt$/, host)
    assert.match(await exact(front, '/', 'team.example'), /pub\/team\/index\.html$/)
    assert.match(await exact(front, '/a', 'team.example'), /\r\nlocation: \/a\/\r\n/i)
    assert.match(await exact(front, '/pub/team/x.txt', 'team.example'), /pub\/team\/x\.txt$/)
    assert.match(await exact(front, '/v1/proxyd_routes', 'team.example'), /^HTTP\/1\.1 401 /)
    assert.match(await exact(front, '/health', 'team.example'), /"daemon":"proxyd"/)
    assert.match(await exact(front, '/robots.txt', 'team.example'), /Disallow: \/chat\//)
    const other = `GET /x.txt HTTP/1.1\r\nHost: a\r\nX-Forwarded-Host: team.example\r\nConnection: close\r\n\r\n`
    assert.equal(statusOf(await sendRaw(front.url(), other)), 404)
  })

  test('files of a removed folder are not served', async (t) => {
    const front = await site(t)
    front.write('pub/other/x.txt')
    front.write('pub/stray.txt')
    assert.equal((await front.get('/pub/other/x.txt')).status, 200)
    await front.cli.call(groupsResource.verbs.remove, { folder: 'other' })
    assert.equal((await front.get('/pub/other/x.txt')).status, 404)
    assert.equal((await front.get('/pub/stray.txt')).status, 404)
  })
})

suite('unpublished files', () => {
  test('are not reached by any spelling', async (t) => {
    const front = await site(t)
    front.write('secret.txt')
    front.write('pub/team/.env')
    front.write('pub/team/.git/config')
    front.write('pub/team/..x')
    for (const path of [
      '/pub/../secret.txt',
      '/pub/team/../../secret.txt',
      '/pub/team/%2e%2e/%2e%2e/secret.txt',
      '/pub/team/..%2f..%2fsecret.txt',
      '/pub/team/..%5c..%5csecret.txt',
      '/pub/team\\..\\..\\secret.txt',
      '/pub/team/.%2e/x.txt',
      '/pub//team/x.txt',
      '/pub/./team/x.txt',
      '/pub/team/x.txt%00',
      '/pub/team/x.txt%00.html',
      '/pub/team/x.txt%0a',
      '/pub/team/%c0%ae%c0%ae/x.txt',
      '/pub/team/%zz',
      '/pub/team/.env',
      '/pub/team/%2eenv',
      '/pub/team/.git/config',
      '/pub/team/..x',
      '/pub/team%2fx.txt',
      '/pub/',
      '/pub',
      '/PUB/team/x.txt',
      '/pub/team/x.txt;',
      '/pub/team/CON',
      `/pub/team/${'a'.repeat(4000)}`,
    ]) {
      const answer = await exact(front, path)
      assert.equal(statusOf(answer), 404, `${path}: ${answer.slice(0, 80)}`)
    }
  })

  test('are not reached through links or special files', async (t) => {
    const front = await site(t)
    front.write('secret.txt')
    front.write('pub/other/theirs.txt')
    front.write('pub/team/.hidden/x.txt')
    front.write('priv/other/x.txt')
    const team = join(front.web, 'pub/team')
    mkdirSync(join(front.web, 'pub/team/a'), { recursive: true })
    symlinkSync('../../secret.txt', join(team, 'out.txt'))
    symlinkSync(join(front.web, 'secret.txt'), join(team, 'absolute.txt'))
    symlinkSync('../other', join(team, 'theirs'))
    symlinkSync('../../priv/other', join(team, 'private'))
    symlinkSync('.hidden/x.txt', join(team, 'hidden.txt'))
    symlinkSync('../x.txt', join(team, 'a/up.txt'))
    symlinkSync('loop', join(team, 'loop'))
    symlinkSync('x.txt', join(team, 'own.txt'))
    symlinkSync('..', join(team, 'a/parent'))
    execFileSync('mkfifo', [join(team, 'pipe')])
    for (const path of [
      'out.txt',
      'absolute.txt',
      'theirs/theirs.txt',
      'theirs',
      'private/x.txt',
      'hidden.txt',
      'loop',
      'pipe',
      'a/up.txt',
      'a/parent/x.txt',
      'a/parent',
    ])
      assert.equal((await front.get(`/pub/team/${path}`)).status, 404, path)
    assert.equal(await (await front.get('/pub/team/own.txt')).text(), 'pub/team/x.txt')
    linkSync(join(team, 'x.txt'), join(team, 'hard.txt'))
    assert.equal((await front.get('/pub/team/hard.txt')).status, 200)
  })

  test('a slot that is a symbolic link shows nothing', async (t) => {
    const front = await site(t)
    front.write('elsewhere/x.txt')
    symlinkSync('../elsewhere', join(front.web, 'pub/other'))
    assert.equal((await front.get('/pub/other/x.txt')).status, 404)
  })

  test('are not reached by swapping a directory for a link during the lookup', async (t) => {
    const front = await site(t)
    front.write('outside/x.txt', 'secret')
    front.write('pub/team/d/x.txt', 'public')
    const [dir, aside] = [join(front.web, 'pub/team/d'), join(front.web, 'pub/team/e')]
    const swapper = spawn(process.execPath, ['-e', SWAP, dir, aside], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.after(() => swapper.kill())
    await once(swapper.stdout, 'data')
    const texts = new Set<string>()
    for (let round = 0; round < 3000 || !texts.has('public'); round++) {
      const found = await findFile(join(front.web, 'pub'), 'team', ['team', 'd', 'x.txt'])
      if (!found || found === 'directory') continue
      texts.add(String(await found.file.handle.readFile()))
      await found.file.handle.close()
    }
    assert.equal(swapper.exitCode, null)
    swapper.kill()
    await once(swapper, 'exit')
    assert.ok(!texts.has('secret'))
  })
})

/** Swaps the directory for a link and back, as fast as it can. */
const SWAP = `
const { renameSync, symlinkSync, unlinkSync } = require('node:fs')
const [dir, aside] = process.argv.slice(1)
process.stdout.write('.')
for (;;) {
  renameSync(dir, aside)
  symlinkSync('../../outside', dir)
  unlinkSync(dir)
  renameSync(aside, dir)
}`

test('segments contain no separators and no hidden names', () => {
  assert.deepEqual(splitPath('/team/a b/'), ['team', 'a b', ''])
  assert.deepEqual(splitPath('/a%2e'), ['a%2e'])
  for (const path of ['/a//b', '/.a', '/a/..', '/a\\b', '/a\u0000', '/a\n', '/\u007f'])
    assert.equal(splitPath(path), undefined)
  fc.assert(
    fc.property(fc.oneof(fc.webPath(), fc.string({ unit: 'binary' })), (path) => {
      for (const segment of splitPath(`/${path}`) ?? []) assert.ok(!/^\.|[/\\\0]/.test(segment), segment)
    }),
  )
})
