import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import type { ProxydRoute } from '../../core/links/proxyd-routes.ts'
import { bindWebHost } from '../../core/links/web-hosts.ts'
import type { WebRoute } from '../../core/links/web-routes.ts'
import { groupsResource } from '../../resources/groups.ts'
import { proxydRoutesResource } from '../../resources/proxyd-routes.ts'
import { webRoutesResource } from '../../resources/web-routes.ts'
import { RequestPath } from './request-target.ts'
import { compileProxyRouteTable, ProxyRouteTableReader, type RouteMatch } from './route-table.ts'

const created_at = '2026-01-01T00:00:00.000Z'

function webRoute(line: string): WebRoute {
  const [path_prefix = '', access, redirect_to] = line.split(' ')
  const row = { path_prefix, folder: 'team', created_at }
  if (access === 'redirect') return { ...row, access, redirect_to }
  return { ...row, access: access === 'deny' || access === 'auth' ? access : 'public' }
}

function route(line: string): ProxydRoute {
  const [path = '', to = '', auth] = line.split(' ')
  const who = auth === 'user' || auth === 'operator' ? auth : 'public'
  if (to.startsWith('>')) return { path, redirect_to: to.slice(1), auth: who }
  const row: ProxydRoute = { path, backend: to.replace('!', ''), auth: who, strip_prefix: to.endsWith('!') }
  return row.strip_prefix ? { ...row, escapes: 'keep' } : row
}

function at(text: string): RequestPath {
  const path = RequestPath.parse(text)
  assert.ok(path, text)
  return path
}

/** Short text of a match. */
function describeMatch(match: RouteMatch | undefined): string {
  switch (match?.kind) {
    case undefined:
      return 'nothing'
    case 'denied':
      return 'denied'
    case 'redirect':
      return `${match.auth} to ${match.to}${match.keepsQuery ? '' : ' whole'}`
    case 'files':
      return `${match.auth} ${match.slot} ${match.path}`
    case 'backend':
      return `${match.route.auth} ${match.backend} ${match.path}`
  }
}

suite('matching a path', () => {
  const table = compileProxyRouteTable({
    routes: [
      '/app/ http://app user',
      '/app/admin/ http://admin! operator',
      '/login http://login',
      '/old/ >https://new.example/x/',
      '/older/ >/pub/team',
      '/asked/ >/pub/team?y=1',
      '/chat/ http://evil',
      '/v1/groups http://evil',
      '/app/files/x http://x',
      '/CHAT/ http://evil',
      '/.well-known/ http://evil',
      '/.well-known/x http://known',
      '/pub/team/ops/ http://ops operator',
    ].map(route),
    webRoutes: [
      '/pub/team/secret deny',
      '/pub/team/secret/open/ public',
      '/pub/team/members/ auth',
      '/pub/team/a!b/ deny',
      '/pub/team/ä/ deny',
      '/pub/team/moved/ redirect /pub/team/',
      '/.well-known/acme-challenge/ public',
      '/.Well-Known/ public',
      '/favicon.ico redirect /pub/team/',
      '/go redirect /pub/team/',
      '/app/files/ auth',
      '/shop public',
      '/shop/cart/ auth',
      '/priv/team/press public',
      '/hook/x deny',
      '/twin deny',
      '/twin/ public',
    ].map(webRoute),
    hosts: new Map([
      ['team.example', 'team'],
      ['team.example:81', 'other'],
    ]),
  })
  const PATHS: Record<string, string> = {
    '/app/': 'user http://app /app/',
    '/app/x/y': 'user http://app /app/x/y',
    '/app': 'nothing',
    '/app/admin/users': 'operator http://admin /users',
    '/app/admin/': 'operator http://admin /',
    '/app/admin': 'user http://app /app/admin',
    '/app/%61dmin/users': 'operator http://admin /users',
    '/app/a%20b/%7Euser': 'user http://app /app/a%20b/~user',
    '/app/admin/a%2fb': 'operator http://admin /a%2Fb',
    '/app/admin%2Fb': 'nothing',
    '/app/x%2fy': 'nothing',
    '/app/admin/x%2F..%2Fy': 'nothing',
    '/login': 'public http://login /login',
    '/login/': 'nothing',
    '/login/x': 'nothing',
    '/old/a/b': 'public to https://new.example/x/a/b',
    '/old/': 'public to https://new.example/x/',
    '/older/a': 'public to /pub/team/a',
    '/asked/a': 'public to /pub/team?y=1 whole',
    // Rows do not change these.
    '/chat/x': 'nothing',
    '/CHAT/x': 'nothing',
    '/.well-known/x': 'public http://known /.well-known/x',
    '/.Well-Known/acme-challenge/x': 'nothing',
    '/favicon.ico': 'nothing',
    '/hook/x': 'nothing',
    '/v1/groups': 'nothing',
    '/pub/team/': 'public pub /team/',
    '/pub/team/x': 'public pub /team/x',
    '/pub/team/secret': 'denied',
    '/pub/team/secret/': 'denied',
    '/pub/team/secret/x/y': 'denied',
    '/pub/team/%73ecret/x': 'denied',
    '/pub/team/a!b/x': 'denied',
    '/pub/team/a%21b/x': 'denied',
    '/pub/team/%C3%A4/x': 'denied',
    '/pub/team/\u00c3\u00a4/x': 'denied',
    '/pub/team/%E4/x': 'public pub /team/\ufffd/x',
    '/pub/team/secrets': 'public pub /team/secrets',
    '/pub/team/secret/open/x': 'public pub /team/secret/open/x',
    '/pub/team/members': 'user pub /team/members',
    '/pub/team/members/x': 'user pub /team/members/x',
    '/priv/team/x': 'folder priv /team/x',
    '/priv/team/press/x': 'public priv /team/press/x',
    '/go': 'public to /pub/team/',
    '/go/': 'public to /pub/team/',
    '/go/a/b': 'public to /pub/team/a/b',
    '/gone': 'nothing',
    '/app/files/y': 'user pub /team/y',
    '/app/files/x': 'public http://x /app/files/x',
    '/shop': 'public pub /team',
    '/shop/': 'public pub /team/',
    '/shop/a': 'public pub /team/a',
    '/shop/cart/': 'user pub /team/',
    // The rows of a file hold at every path that leads to it.
    '/shop/secret/x': 'denied',
    '/shop/secret/open/x': 'public pub /team/secret/open/x',
    '/shop/members/x': 'user pub /team/members/x',
    '/shop/ops/x': 'operator pub /team/ops/x',
    '/shop/moved/x': 'public pub /team/moved/x',
    '/twin': 'denied',
    '/twin/x': 'public pub /team/x',
    '/pub': 'nothing',
    '/pub/': 'public pub /',
    '/': 'nothing',
  }
  for (const [path, match] of Object.entries(PATHS))
    test(`${path}: ${match}`, () => assert.equal(describeMatch(table.match('front.example', at(path))), match))

  test('a mapped host shows its folder, and the slots keep their paths', () => {
    assert.equal(describeMatch(table.match('team.example', at('/'))), 'public pub /team/')
    assert.equal(describeMatch(table.match('team.example:8080', at('/a/b'))), 'public pub /team/a/b')
    assert.equal(describeMatch(table.match('team.example:81', at('/a'))), 'public pub /other/a')
    assert.equal(describeMatch(table.match('team.example', at('/secret/x'))), 'denied')
    assert.equal(describeMatch(table.match('team.example', at('/%73ecret/x'))), 'denied')
    assert.equal(describeMatch(table.match('team.example', at('/a%20b'))), 'public pub /team/a b')
    assert.equal(describeMatch(table.match('team.example', at('/app/x'))), 'public pub /team/app/x')
    assert.equal(describeMatch(table.match('team.example', at('/pub/other/x'))), 'public pub /other/x')
    assert.equal(describeMatch(table.match('team.example', at('/priv/team/x'))), 'folder priv /team/x')
    assert.equal(describeMatch(table.match('xteam.example', at('/a'))), 'nothing')
  })

  test('a catch-all row does not open private files, but may deny them', () => {
    const open = compileProxyRouteTable({ routes: [], webRoutes: [webRoute('/ public')], hosts: new Map() })
    assert.equal(describeMatch(open.match('', at('/priv/team/x'))), 'folder priv /team/x')
    assert.equal(describeMatch(open.match('', at('/x'))), 'public pub /team/x')
    assert.equal(describeMatch(open.match('', at('/'))), 'public pub /team/')
    const shut = compileProxyRouteTable({ routes: [], webRoutes: [webRoute('/ deny')], hosts: new Map() })
    assert.equal(describeMatch(shut.match('', at('/priv/team/x'))), 'denied')
  })
})

test('the longest matching prefix decides', () => {
  const segment = fc.constantFrom('a', 'b', 'ab')
  const path = fc
    .tuple(fc.array(segment, { maxLength: 4 }), fc.boolean())
    .map(([segments, slash]) => `/${segments.join('/')}${slash && segments.length > 0 ? '/' : ''}`)
  fc.assert(
    fc.property(fc.uniqueArray(path, { maxLength: 8 }), path, (prefixes, asked) => {
      // Each row redirects to its own prefix.
      const rows = prefixes.map((prefix) => webRoute(`${prefix} redirect /to${prefix}`))
      const bare = (text: string): string => text.replace(/\/$/, '')
      const fitting = prefixes
        .filter((prefix) => bare(asked) === bare(prefix) || asked.startsWith(`${bare(prefix)}/`))
        .sort((one, other) => bare(other).length - bare(one).length || Number(other === asked) - Number(one === asked))
      const match = compileProxyRouteTable({ routes: [], webRoutes: rows, hosts: new Map() }).match('', at(asked))
      const longest = fitting[0]
      if (longest === undefined) assert.equal(match, undefined)
      else
        assert.ok(match?.kind === 'redirect' && match.to.startsWith(`/to${bare(longest)}`), `${describeMatch(match)}`)
    }),
  )
})

onEveryEngine('the cached route table', (engine) => {
  test('sees changes at once, in every process', async (t) => {
    const store = await testHost(t, engine)
    await store.groups('main', 'team')
    const [here, there] = [new ProxyRouteTableReader(() => false), new ProxyRouteTableReader(() => false)]
    const see = async (path: string, host = ''): Promise<string> => {
      const [one, other] = await store.host.engine.read(async (tx) => [
        describeMatch((await here.read(tx)).match(host, at(path))),
        describeMatch((await there.read(tx)).match(host, at(path))),
      ])
      assert.equal(one, other)
      return one ?? ''
    }
    assert.equal(await see('/x/'), 'nothing')
    await store.cli.call(proxydRoutesResource.verbs.create, { path: '/x/', backend: 'http://x', auth: 'user' })
    assert.equal(await see('/x/'), 'user http://x /x/')
    await store.cli.call(proxydRoutesResource.verbs.update, { path: '/x/', auth: 'operator' })
    assert.equal(await see('/x/'), 'operator http://x /x/')
    await store.cli.call(proxydRoutesResource.verbs.delete, { path: '/x/' })
    assert.equal(await see('/x/'), 'nothing')
    await store.cli.call(webRoutesResource.verbs.create, { path_prefix: '/pub/team/', access: 'deny', folder: 'team' })
    assert.equal(await see('/pub/team/'), 'denied')
    await store.host.engine.transaction((tx) => bindWebHost(tx, 'team.example', 'team'))
    assert.equal(await see('/x', 'team.example'), 'denied')
    // Removing a folder removes its rows.
    await store.cli.call(groupsResource.verbs.remove, { folder: 'team' })
    assert.equal(await see('/pub/team/'), 'public pub /team/')
    assert.equal(await see('/x', 'team.example'), 'nothing')
  })

  test('is compiled once while nothing changes', async (t) => {
    const { host, cli } = await testHost(t, engine)
    const rows = new ProxyRouteTableReader(() => false)
    const read = () => host.engine.read((tx) => rows.read(tx))
    const first = await read()
    assert.equal(await read(), first)
    await cli.call(proxydRoutesResource.verbs.create, { path: '/x/', backend: 'http://x', auth: 'user' })
    const second = await read()
    assert.notEqual(second, first)
    assert.equal(await read(), second)
    // A table that was read before does not change.
    assert.equal(describeMatch(first.match('', at('/x/'))), 'nothing')
  })

  test('ignores rows whose gated_by setting is not set', async (t) => {
    const { host, cli } = await testHost(t, engine)
    const gated = { backend: 'http://x', auth: 'public' } as const
    await cli.call(proxydRoutesResource.verbs.create, { ...gated, path: '/a/', gated_by: 'SLACK_KEY' })
    await cli.call(proxydRoutesResource.verbs.create, { ...gated, path: '/b/', gated_by: 'OTHER_KEY' })
    const table = await host.engine.read((tx) => new ProxyRouteTableReader((key) => key === 'SLACK_KEY').read(tx))
    assert.equal(describeMatch(table.match('', at('/a/'))), 'public http://x /a/')
    assert.equal(describeMatch(table.match('', at('/b/'))), 'nothing')
  })
})
