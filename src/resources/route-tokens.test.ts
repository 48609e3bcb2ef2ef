// Minting, listing and revoking links. See docs/decisions.md#minting-links.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { suite, test } from 'node:test'
import { auditedCalls, breakAudit, wholeStore } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import { ask, restApp } from '../../test/support/rest.ts'
import { groups } from '../core/groups/groups.ts'
import { addLinkStats } from '../core/links/link-stats.ts'
import { answerContext, routeTokens, verifyContext } from '../core/links/route-tokens.ts'
import { webHosts } from '../core/links/web-hosts.ts'
import { findChatFolder } from '../core/routing/chat-folder.ts'
import { openKeyring } from '../core/secrets/keyring.ts'
import { audit } from '../registry/audit.ts'
import { callVerb } from '../registry/call.ts'
import { groupsResource } from './groups.ts'
import { routeTokensResource } from './route-tokens.ts'
import { routesResource } from './routes.ts'

const { issue_apart, issue_chat, issue_hook, issue_operator_hook, list, list_of, revoke } = routeTokensResource.verbs
const { remove: removeGroup } = groupsResource.verbs
const JAN_1 = '2026-01-01T00:00:00.000Z'

async function rowsOf({ host }: TestHost) {
  return host.engine.read((tx) => routeTokens.list(tx, {}, [['jid', 'asc']]))
}

async function jidsOf(at: TestHost): Promise<string[]> {
  return (await rowsOf(at)).map(({ jid }) => jid)
}

/** A row without target_folder, as earlier versions wrote it. */
async function addLegacy({ host }: TestHost, jid: string, owner_folder: string): Promise<void> {
  const token_hash = createHash('sha256').update(`old ${jid}`).digest()
  await host.engine.transaction((tx) => routeTokens.insert(tx, { token_hash, jid, owner_folder, created_at: JAN_1 }))
}

onEveryEngine('minting', (engine) => {
  test('a token is 32 random bytes, and only its hash is stored', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    const main = at.as(agent('main'))
    const minted = [
      await main.call(issue_chat, { target_folder: 'team', context: 'Be brief.' }),
      await main.call(issue_hook, { source_label: 'ci', jid_suffix: 'x' }),
    ]
    assert.deepEqual(
      minted.map(({ token, url, jid }) => [token.length, url.replace(token, '<token>'), jid]),
      [
        [43, 'http://localhost:8080/chat/<token>/', 'web:team'],
        [43, 'http://localhost:8080/hook/<token>', 'hook:main/ci/x'],
      ],
    )
    const store = await wholeStore(at)
    for (const { token } of minted) {
      assert.match(token, /^[A-Za-z0-9_-]{43}$/)
      assert.equal(Buffer.from(token, 'base64url').length, 32)
      assert.ok(store.includes(createHash('sha256').update(token).digest('hex')), 'its SHA-256 is stored')
      for (const raw of [token, Buffer.from(token).toString('hex'), Buffer.from(token, 'base64url').toString('hex')])
        assert.ok(!store.includes(raw), 'the raw token is not stored')
    }
  })

  test('a link stores the tools that it was minted with and lists them', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    const main = at.as(agent('main'))
    await main.call(issue_chat, { jid_suffix: 'a' })
    await main.call(issue_chat, { jid_suffix: 'b', tools: 'all' })
    await main.call(issue_hook, { source_label: 'ci', tools: 'chat' })
    await at.cli.call(issue_operator_hook, {
      source_label: 'gh',
      verify: 'github',
      verify_secret: 's'.repeat(32),
      tools: 'all',
    })
    assert.deepEqual(
      (await rowsOf(at)).map(({ jid, tools }) => [jid, tools]),
      [
        ['hook:main/ci', 'chat'],
        ['hook:main/gh', 'all'],
        ['web:main/a', undefined],
        ['web:main/b', 'all'],
      ],
    )
    const { tokens } = await main.call(list, { limit: 10 })
    assert.equal(tokens.find(({ jid }) => jid === 'web:main/b')?.tools, 'all')
    await assert.rejects(main.call(issue_chat, { tools: 'most' }), isRefusal('invalid', 'tools must be'))
  })

  test('only an administrator of the folder with full reach gives more tools than the default', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'other')
    const { host } = at
    await at.grant('folder:team', 'mcp:issue_chat_link', '**')
    await at.grant('folder:team', 'mcp:issue_webhook', '**')
    const team = at.as(agent('team'))
    const needsAdmin = (tools: string, folder: string) =>
      isRefusal('forbidden', `only an administrator of ${folder} may give tools "${tools}"`)
    for (const tools of ['work', 'all']) {
      await assert.rejects(team.call(issue_chat, { target_folder: 'other', tools }), needsAdmin(tools, 'other'))
      await team.call(issue_chat, { tools })
    }
    const hook = { source_label: 'ci', target_folder: 'other' }
    await assert.rejects(team.call(issue_hook, { ...hook, tools: 'all' }), needsAdmin('all', 'other'))
    await team.call(issue_hook, { ...hook, tools: 'work' })
    await team.call(issue_hook, { ...hook, tools: 'chat' })
    await team.call(issue_chat, { target_folder: 'other', tools: 'chat' })
    for (const reach of ['chat', 'work'] as const)
      await assert.rejects(
        callVerb({ host, caller: agent('team'), face: 'tool', reach }, issue_chat, { tools: 'chat' }),
        isRefusal('forbidden', `(reach ${reach}, needed all)`),
      )
    await at.grant('github:1', 'mcp:issue_chat_link', 'team')
    await at.grant('github:2', 'admin', 'team')
    const [guest, admin] = [at.as(person('github:1', 'team')), at.as(person('github:2', 'team'))]
    await guest.call(issue_chat, { tools: 'chat' })
    await assert.rejects(guest.call(issue_chat, { tools: 'work' }), needsAdmin('work', 'team'))
    await admin.call(issue_chat, { tools: 'all' })
  })

  test('tokens are unique', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    const tokens = await Promise.all(Array.from({ length: 50 }, () => at.as(agent('main')).call(issue_chat, {})))
    assert.equal(new Set(tokens.map(({ token }) => token)).size, 50)
    assert.deepEqual(new Set(await jidsOf(at)), new Set(['web:main']))
  })

  test('an agent needs a grant that covers the target, and owns what it mints', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'team/a', 'other')
    const team = at.as(agent('team'))
    await assert.rejects(team.call(issue_chat, {}), isRefusal('forbidden', 'no rule of tier 1'))
    await at.grant('folder:team', 'mcp:issue_chat_link', 'team/**')
    await team.call(issue_chat, { target_folder: 'team/a' })
    await assert.rejects(team.call(issue_hook, { source_label: 'ci' }), isRefusal('forbidden'))
    await assert.rejects(team.call(issue_chat, { target_folder: 'other' }), isRefusal('forbidden', 'on other'))
    await at.grant('folder:team', 'mcp:issue_chat_link', 'other')
    await team.call(issue_chat, { target_folder: 'other' })
    assert.deepEqual(
      (await rowsOf(at)).map(({ jid, owner_folder, target_folder }) => [jid, owner_folder, target_folder]),
      [
        ['web:other', 'team', 'other'],
        ['web:team/a', 'team', 'team/a'],
      ],
    )
  })

  test('an owner can mint a JID again with another context', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    for (const context of ['One.', 'Two.', '']) await at.as(agent('main')).call(issue_chat, { context })
    const rows = await rowsOf(at)
    assert.deepEqual(rows.map(({ jid, context }) => `${jid} ${context ?? '(none)'}`).sort(), [
      'web:main (none)',
      'web:main One.',
      'web:main Two.',
    ])
  })

  test('a JID of another owner or of another target is a conflict', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'team/forms')
    const main = at.as(agent('main'))
    await at.grant('folder:team', 'mcp:issue_chat_link', 'team/**')
    await main.call(issue_chat, { target_folder: 'team', jid_suffix: 'forms' })
    // The same JID, for the folder of that name.
    await assert.rejects(
      main.call(issue_chat, { target_folder: 'team/forms' }),
      isRefusal('conflict', 'web:team/forms delivers to team already'),
    )
    await assert.rejects(
      at.as(agent('team')).call(issue_chat, { jid_suffix: 'forms' }),
      isRefusal('conflict', 'web:team/forms is minted by another folder already'),
    )
    await main.call(issue_chat, { target_folder: 'team', jid_suffix: 'forms' })
    assert.equal((await rowsOf(at)).length, 2)
  })

  test('a conflict names the folder that issued the link to those who administer it', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'team/a')
    for (const folder of ['team', 'team/a']) await at.grant(`folder:${folder}`, 'mcp:issue_chat_link', 'team/**')
    await at.grant('github:1', 'admin', 'team/a')
    await at.as(agent('team')).call(issue_chat, { target_folder: 'team/a' })
    const [named, unnamed] = ['the folder team', 'another folder'].map((issuer) =>
      isRefusal('conflict', `web:team/a is minted by ${issuer} already`),
    )
    assert.ok(named && unnamed)
    for (const caller of [at.cli, at.as(agent('main'))])
      await assert.rejects(caller.call(issue_chat, { target_folder: 'team/a' }), named)
    for (const caller of [at.as(agent('team/a')), at.as(person('github:1'))])
      await assert.rejects(caller.call(issue_chat, {}), unnamed)
  })

  test('a JID becomes available when its last token is revoked', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    await at.grant('folder:team', 'mcp:issue_chat_link', 'team')
    await at.as(agent('main')).call(issue_chat, { target_folder: 'team' })
    await assert.rejects(at.as(agent('team')).call(issue_chat, {}), isRefusal('conflict'))
    await at.as(agent('main')).call(revoke, { jid: 'web:team' })
    await at.as(agent('team')).call(issue_chat, {})
  })

  test('of fifty folders that mint one JID concurrently, one succeeds', async (t) => {
    const at = await testHost(t, engine)
    const folders = Array.from({ length: 50 }, (_, number) => `f${number}`)
    await at.groups('team', ...folders)
    await at.grant('folder:*', 'mcp:issue_chat_link', 'team')
    const mints = folders.map((folder) => at.as(agent(folder)).call(issue_chat, { target_folder: 'team' }))
    const settled = await Promise.allSettled(mints)
    const lost = settled.filter((mint) => mint.status === 'rejected')
    assert.equal(lost.length, 49)
    for (const { reason } of lost) assert.ok(isRefusal('conflict', 'minted by another folder')(reason))
    assert.deepEqual(await jidsOf(at), ['web:team'])
  })

  test('owner and target must be groups', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await assert.rejects(
      at.as(agent('main')).call(issue_chat, { target_folder: 'gone' }),
      isRefusal('not_found', 'gone'),
    )
    await at.host.engine.transaction((tx) => groups.remove(tx, { folder: 'main' }))
    await assert.rejects(at.as(agent('main')).call(issue_chat, {}), isRefusal('not_found', 'main'))
  })
})

suite('mint parameters', () => {
  const SEGMENTS: Record<string, boolean> = {
    a: true,
    'A-Z_09': true,
    [`x${'y'.repeat(63)}`]: true,
    [`x${'y'.repeat(64)}`]: false,
    '': false,
    '.': false,
    '..': false,
    'a.b': false,
    'a/b': false,
    'a b': false,
    'a\n': false,
    ä: false,
    '{sender}': false,
    '%2e': false,
    '*': false,
  }
  for (const [text, isValid] of Object.entries(SEGMENTS)) {
    test(`the segment ${JSON.stringify(text.slice(0, 20))} is ${isValid ? 'accepted' : 'refused'}`, async (t) => {
      const at = await testHost(t)
      await at.groups('main')
      const main = at.as(agent('main'))
      const tries: [string, () => Promise<{ jid: string }>, string][] = [
        ['jid_suffix', () => main.call(issue_chat, { jid_suffix: text }), `web:main/${text}`],
        ['source_label', () => main.call(issue_hook, { source_label: text }), `hook:main/${text}`],
        ['jid_suffix', () => main.call(issue_hook, { source_label: 'a', jid_suffix: text }), `hook:main/a/${text}`],
      ]
      for (const [name, mint, jid] of tries) {
        if (isValid) assert.equal((await mint()).jid, jid)
        else await assert.rejects(mint(), isRefusal('invalid', `${name} must be 1 to 64 letters, digits, "_" or "-"`))
      }
    })
  }

  test('owner, hash and time are not parameters', async (t) => {
    const at = await testHost(t)
    await at.groups('main', 'team')
    for (const extra of ['owner_folder', 'token_hash', 'token', 'jid', 'created_at', 'constructor'])
      await assert.rejects(
        at.as(agent('main')).call(issue_chat, { [extra]: 'team' }),
        isRefusal('invalid', `unknown field "${extra}"`),
      )
    await assert.rejects(at.as(agent('main')).call(issue_hook, {}), isRefusal('invalid', 'source_label is required'))
    assert.deepEqual(await rowsOf(at), [])
  })

  test('the length of a context is limited in characters', async (t) => {
    const at = await testHost(t)
    await at.groups('main')
    const main = at.as(agent('main'))
    await main.call(issue_chat, { context: '😀'.repeat(16_384) })
    await assert.rejects(
      main.call(issue_chat, { context: '😀'.repeat(16_385) }),
      isRefusal('invalid', 'longer than 16384'),
    )
  })

  test('a context can be set only when minting', () => {
    const withContext = Object.values(routeTokensResource.verbs).filter(({ input }) => 'context' in input.shape)
    assert.deepEqual(
      withContext.map(({ verb }) => verb),
      ['issue_chat', 'issue_apart', 'issue_hook', 'issue_operator_hook'],
    )
  })
})

onEveryEngine('a link that keeps visitors apart', (engine) => {
  test('is minted by operators only, and shares its chat with no link of the other kind', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    await at.grant('folder:team', 'admin', 'team')
    await at.grant('github:2', 'admin', 'team')
    for (const caller of [agent('team'), agent('main'), person('github:2', 'team')])
      await assert.rejects(at.as(caller).call(issue_apart, { target_folder: 'team' }), isRefusal('forbidden'))
    const { jid } = await at.cli.call(issue_apart, { target_folder: 'team' })
    await at.cli.call(issue_apart, { target_folder: 'team' })
    await at.cli.call(issue_chat, { target_folder: 'team', jid_suffix: 'open' })
    await assert.rejects(
      at.cli.call(issue_chat, { target_folder: 'team' }),
      isRefusal('conflict', 'web:team has a link that keeps visitors apart, and a chat has only one kind'),
    )
    await assert.rejects(
      at.cli.call(issue_apart, { target_folder: 'team', jid_suffix: 'open' }),
      isRefusal('conflict', 'web:team/open has a link that keeps visitors together'),
    )
    await assert.rejects(
      at.cli.call(issue_apart, { target_folder: 'team', jid_suffix: 'u-0123456789ab' }),
      isRefusal('invalid', 'reserved for chats of people'),
    )
    const { tokens } = await at.cli.call(list_of, { folder: 'team' })
    assert.deepEqual(tokens.map(({ visitors }) => visitors).sort(), ['apart', 'apart', undefined])
    const { tokens: listed } = await at.cli.call(list, { folder: 'team' })
    assert.ok(listed.every((token) => !('visitors' in token)))
    await at.cli.call(revoke, { jid })
    await at.cli.call(issue_chat, { target_folder: 'team' })
  })
})

onEveryEngine('a link for signed requests', (engine) => {
  const signed = { source_label: 'github', verify: 'github', verify_secret: "It's a Secret to Everybody" }

  test('stores its secret encrypted and never shows it', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    const { jid, url, token } = await at.cli.call(issue_operator_hook, { target_folder: 'main', ...signed })
    assert.deepEqual([jid, url], ['hook:main/github', `http://localhost:8080/hook/${token}`])
    const [row] = await rowsOf(at)
    assert.ok(row?.verify_secret)
    assert.equal(row.verify, 'github')
    const opened = at.host.keyring.open(row.verify_secret, verifyContext(row.token_hash))
    assert.equal(opened.toString(), signed.verify_secret)
    assert.throws(
      () => at.host.keyring.open(row.verify_secret ?? opened, verifyContext(opened)),
      isRefusal('unavailable'),
    )
    const store = await wholeStore(at)
    for (const raw of [signed.verify_secret, Buffer.from(signed.verify_secret).toString('hex')])
      assert.ok(!store.includes(raw), 'the secret is not in the store or the audit log')
    const { tokens } = await at.cli.call(list_of, { folder: 'main' })
    assert.deepEqual(
      tokens.map((link) => [link.verify, Object.keys(link).includes('verify_secret')]),
      [['github', false]],
    )
    await at.operator('github:1')
    const [visible] = (await at.as(person('github:1')).call(list, {})).tokens
    assert.deepEqual(Object.keys(visible ?? {}).sort(), ['created_at', 'jid', 'owner_folder', 'target_folder'])
  })

  test('can be minted only by the command line, with a key, a known scheme and a secret', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.operator('github:1')
    const input = { target_folder: 'main', ...signed }
    for (const caller of [agent('main'), person('github:1')])
      await assert.rejects(at.as(caller).call(issue_operator_hook, input), isRefusal('forbidden'))
    await assert.rejects(at.as(agent('main')).call(issue_hook, input), isRefusal('invalid', 'unknown field "verify"'))
    const mintWith = (change: object) => at.cli.call(issue_operator_hook, { ...input, ...change })
    await assert.rejects(
      mintWith({ verify: 'gitlab' }),
      isRefusal('invalid', 'verify must be github, standard, stripe or'),
    )
    await assert.rejects(mintWith({ verify_secret: '' }), isRefusal('invalid', 'the secret must not be empty'))
    await assert.rejects(
      mintWith({ verify: 'standard', verify_secret: 'whsec_!' }),
      isRefusal('invalid', 'must be base64'),
    )
    const withoutKey = { ...at.host, keyring: openKeyring(undefined) }
    const request = { host: withoutKey, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
    await assert.rejects(
      callVerb(request, issue_operator_hook, input),
      isRefusal('unavailable', 'SECRETS_KEY is not set'),
    )
    assert.deepEqual(await rowsOf(at), [])
  })
})

onEveryEngine('a webhook whose answers are sent on', (engine) => {
  const URL_TARGET = 'https://ci.example.com/answers'
  const ci = { target_folder: 'team', source_label: 'ci' }

  test('shows its secret once and stores it encrypted', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    const { answer_secret = '' } = await at.cli.call(issue_operator_hook, { ...ci, answer_to: URL_TARGET })
    assert.equal(Buffer.from(answer_secret.replace('whsec_', ''), 'base64').length, 32)
    const [row] = await rowsOf(at)
    assert.ok(row?.answer_secret)
    const opened = at.host.keyring.open(row.answer_secret, answerContext(row.token_hash))
    assert.equal(opened.toString(), answer_secret)
    const store = await wholeStore(at)
    for (const raw of [answer_secret, Buffer.from(answer_secret).toString('hex')]) assert.ok(!store.includes(raw))
    const { tokens } = await at.cli.call(list_of, { folder: 'team' })
    assert.deepEqual(
      tokens.map((link) => [link.answer_to, 'answer_secret' in link]),
      [[URL_TARGET, false]],
    )
    // The API does not say where answers go.
    await at.operator('github:1')
    const request = 'GET /v1/route_tokens?stats=true'
    const { status, body } = await ask(restApp(at.host, [routeTokensResource]), request, { as: 'github:1' })
    assert.equal(status, 200)
    assert.ok(!JSON.stringify(body).includes('example.com'))
    const { answer_secret: none } = await at.cli.call(issue_operator_hook, {
      ...ci,
      target_folder: 'main',
      answer_to: 'sandbox:lobby',
      verify: 'github',
      verify_secret: 'both at once',
    })
    assert.equal(none, undefined)
  })

  test('may name a URL only for operators, and a chat only where caller and folder may send', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'other')
    for (const [room, target] of [
      ['1', 'team'],
      ['2', 'other'],
    ])
      await at.cli.call(routesResource.verbs.create, { seq: 0, match: `platform=telegram room=group/${room}`, target })
    await at.operator('github:1')
    await at.grant('github:2', 'admin', 'team')
    const session = { session: 'a session of the dashboard' }
    const [operator, admin] = ['github:1', 'github:2'].map((sub) => at.as({ kind: 'person', sub, ...session }, 'dash'))
    assert.ok(operator && admin)
    const mint = (caller: typeof at.cli, answer_to: string, jid_suffix?: string) =>
      caller.call(issue_operator_hook, { ...ci, answer_to, jid_suffix })
    await mint(operator, URL_TARGET, 'a')
    await mint(admin, 'telegram:group/1', 'b')
    await assert.rejects(mint(admin, URL_TARGET), isRefusal('forbidden', 'only operators have answers sent to a URL'))
    await assert.rejects(
      mint(admin, 'telegram:group/2'),
      isRefusal('forbidden', 'answers of team cannot go to telegram:group/2: send: not permitted'),
    )
    await assert.rejects(
      mint(operator, 'telegram:group/2'),
      isRefusal('forbidden', 'send: the chat telegram:group/2 belongs to a folder outside team'),
    )
    await assert.rejects(
      mint(at.cli, 'telegram:group/3'),
      isRefusal('forbidden', 'send: the chat telegram:group/3 has no route in this instance'),
    )
    await at.grant('folder:team', 'hold:mcp:send', 'team')
    await assert.rejects(
      mint(at.cli, 'telegram:group/1'),
      isRefusal('forbidden', 'send: held until an operator approves'),
    )
    for (const caller of [agent('team'), agent('main'), person('github:1')])
      await assert.rejects(mint(at.as(caller), 'telegram:group/1'), isRefusal('forbidden'))
    await assert.rejects(
      at.as(agent('team')).call(issue_hook, { source_label: 'ci', answer_to: 'telegram:group/1' }),
      isRefusal('invalid', 'unknown field "answer_to"'),
    )
    assert.deepEqual(await jidsOf(at), ['hook:team/ci/a', 'hook:team/ci/b'])
  })

  test('cannot name a link of this instance, by its host or by its token', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    await at.host.engine.transaction((tx) => webHosts.insert(tx, { hostname: 'team.example', folder: 'team' }))
    const { token } = await at.cli.call(issue_hook, { ...ci, jid_suffix: 'first' })
    const mint = (answer_to: string) => at.cli.call(issue_operator_hook, { ...ci, answer_to })
    const own = isRefusal('invalid', 'answer_to: it is a link of this instance, and links cannot answer to each other')
    for (const url of [
      'https://localhost:8080/hook/abc',
      'https://localhost:8080/chat/abc/',
      'https://localhost:8080/%68ook/abc',
      'https://team.example/hook/abc',
      'https://TEAM.example:8443/chat/abc/',
      `https://alias.example/hook/${token}`,
      `https://alias.example/prefix/chat/${token}/`,
      `https://alias.example/hook/${token.replace(/./, (first) => `%${first.charCodeAt(0).toString(16)}`)}`,
    ])
      await assert.rejects(mint(url), own, url)
    for (const jid of ['hook:team/other', 'web:team'])
      await assert.rejects(mint(jid), isRefusal('invalid', 'must not be the chat of a link'))
    await mint('https://localhost:9443/hook/abc')
  })

  test('is the only link of its chat', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    await at.grant('folder:team', 'admin', 'team')
    const conflict = isRefusal(
      'conflict',
      'hook:team/ci has a link already, and a link whose answers are sent on must be',
    )
    await at.cli.call(issue_operator_hook, { ...ci, answer_to: URL_TARGET })
    for (const answer_to of [URL_TARGET, undefined])
      await assert.rejects(at.cli.call(issue_operator_hook, { ...ci, answer_to }), conflict)
    await assert.rejects(at.as(agent('team')).call(issue_hook, { source_label: 'ci' }), conflict)
    await at.cli.call(revoke, { jid: 'hook:team/ci' })
    await at.cli.call(issue_hook, ci)
    await assert.rejects(at.cli.call(issue_operator_hook, { ...ci, answer_to: URL_TARGET }), conflict)
  })
})

onEveryEngine('people', (engine) => {
  test("a target must be in the subtree of the person's own folder", async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'team/a', 'teams', 'other')
    await at.grant('github:1', 'admin', 'team/**')
    await at.grant('github:1', 'mcp:issue_chat_link', 'other')
    const admin = at.as(person('github:1'))
    assert.equal((await admin.call(issue_chat, {})).jid, 'web:team')
    assert.equal((await admin.call(issue_chat, { target_folder: 'team/a' })).jid, 'web:team/a')
    await assert.rejects(admin.call(issue_chat, { target_folder: 'teams' }), isRefusal('forbidden', 'on teams'))
    // Granted, but not below the issuing folder.
    await assert.rejects(
      admin.call(issue_chat, { target_folder: 'other' }),
      isRefusal('forbidden', 'other is neither team'),
    )
    assert.deepEqual(new Set((await rowsOf(at)).map(({ owner_folder }) => owner_folder)), new Set(['team']))
  })

  test('an admin of several folders names the target, and the deepest folder that covers it issues the link', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'team/a', 'team/a/x', 'other', 'third')
    for (const scope of ['team/**', 'team/a/**', 'other']) await at.grant('github:1', 'admin', scope)
    const admin = at.as(person('github:1'))
    const owners: Record<string, string> = { team: 'team', 'team/a': 'team/a', 'team/a/x': 'team/a', other: 'other' }
    for (const [target_folder, owner] of Object.entries(owners)) {
      const { jid } = await admin.call(issue_chat, { target_folder })
      const row = (await rowsOf(at)).find((token) => token.jid === jid)
      assert.deepEqual([row?.owner_folder, row?.target_folder], [owner, target_folder])
    }
    const before = (await rowsOf(at)).length
    await assert.rejects(admin.call(issue_chat, {}), isRefusal('invalid', 'you administer several folders'))
    await assert.rejects(admin.call(issue_chat, { target_folder: 'third' }), isRefusal('forbidden', 'on third'))
    assert.equal((await rowsOf(at)).length, before)
  })

  test('with a glob over several folders, the target itself issues the link', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'other')
    await at.grant('github:1', 'admin', '*')
    await at.as(person('github:1')).call(issue_chat, { target_folder: 'other' })
    assert.deepEqual(
      (await rowsOf(at)).map(({ owner_folder }) => owner_folder),
      ['other'],
    )
  })

  test("the audit row of a person's mint has the folder that issued it", async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'team/a', 'other')
    for (const scope of ['team/**', 'other']) await at.grant('github:1', 'admin', scope)
    await at.as(person('github:1')).call(issue_hook, { target_folder: 'team/a', source_label: 'ci' })
    await at.as(person('github:1', 'other')).call(issue_chat, {})
    const rows = await at.host.engine.read((tx) => audit.list(tx))
    const mints = rows.filter(({ action }) => action.startsWith('route_tokens.issue'))
    assert.deepEqual(
      mints.map(({ folder }) => folder),
      ['team', 'other'],
    )
  })

  const OWN: Record<
    string,
    { grants?: [action: string, scope: string][]; operator?: true; bearer?: string; own: string | RegExp }
  > = {
    'the folder of the bearer': {
      grants: [
        ['admin', 'team/**'],
        ['admin', 'other'],
      ],
      bearer: 'other',
      own: 'other',
    },
    'the folder of the bearer, only with access to it': {
      grants: [['admin', 'team']],
      bearer: 'other',
      own: /^issue_chat_link: not permitted on other/,
    },
    'the root for an operator': { operator: true, own: 'main' },
    'the root for an admin of everything': { grants: [['admin', '**']], own: 'main' },
    'the folder of an operator’s bearer': { operator: true, bearer: 'team/a', own: 'team/a' },
    'the only folder they administer': { grants: [['admin', 'team/a']], own: 'team/a' },
    'the top of a subtree': { grants: [['admin', 'team/**']], own: 'team' },
    'the folder of two grants on it and its subtree': {
      grants: [
        ['admin', 'team'],
        ['*', 'team/**'],
      ],
      own: 'team',
    },
    'undefined with several': {
      grants: [
        ['admin', 'team'],
        ['admin', 'other'],
      ],
      own: /^you administer several folders/,
    },
    'undefined with a glob': { grants: [['admin', '*']], own: /^you administer several folders/ },
    'undefined without any': { grants: [['mcp:issue_chat_link', 'team']], own: /^you administer no folder/ },
  }
  for (const [sentence, { grants = [], operator, bearer, own }] of Object.entries(OWN)) {
    test(`a person's own folder is ${sentence}`, async (t) => {
      const at = await testHost(t, engine)
      await at.groups('main', 'team', 'team/a', 'other')
      for (const [action, scope] of grants) await at.grant('github:1', action, scope)
      if (operator) await at.operator('github:1')
      const minted = at.as(person('github:1', bearer)).call(issue_chat, {})
      if (typeof own === 'string') assert.equal((await minted).jid, `web:${own}`)
      else
        await assert.rejects(minted, (error) =>
          isRefusal(String(own).includes('permitted') ? 'forbidden' : 'invalid', own)(error),
        )
    })
  }

  test('a person without any right is refused, whether they name a folder or not', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    await at.grant('github:1', 'interact', 'team')
    const stranger = at.as(person('github:1'))
    const isForbidden = isRefusal('forbidden', 'not permitted')
    for (const target_folder of [undefined, 'team', 'main']) {
      await assert.rejects(stranger.call(issue_chat, { target_folder }), isForbidden)
      await assert.rejects(stranger.call(issue_hook, { target_folder, source_label: 'ci' }), isForbidden)
    }
    assert.deepEqual(await rowsOf(at), [])
  })

  test('the command line mints for the folder that it names', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    await at.cli.call(issue_hook, { target_folder: 'team', source_label: 'ci' })
    const [row] = await rowsOf(at)
    assert.deepEqual([row?.owner_folder, row?.target_folder, row?.source_label], ['team', 'team', 'ci'])
  })
})

onEveryEngine('listing', (engine) => {
  test('shows the links of folders that the caller administers, newest first, without hash and label', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'team/a', 'other')
    for (const target_folder of ['team', 'team/a', 'other']) {
      await at.cli.call(issue_hook, { target_folder, source_label: 'ci', context: `For ${target_folder}.` })
      at.clock.advance(1000)
    }
    await at.as(agent('main')).call(issue_chat, { target_folder: 'team' })
    await at.grant('folder:team', 'mcp:list_route_tokens', 'team')
    await at.grant('github:1', 'admin', 'other')
    const seen = async (caller: Parameters<TestHost['as']>[0]) =>
      (await at.as(caller).call(list, {})).tokens.map(({ jid }) => jid)
    assert.deepEqual(await seen(agent('main')), ['web:team', 'hook:other/ci', 'hook:team/a/ci', 'hook:team/ci'])
    assert.deepEqual(await seen(agent('team')), ['hook:team/a/ci', 'hook:team/ci'])
    assert.deepEqual(await seen(person('github:2')), [])
    const { tokens } = await at.as(person('github:1')).call(list, {})
    assert.deepEqual(tokens, [
      {
        ...{ jid: 'hook:other/ci', owner_folder: 'other', target_folder: 'other' },
        ...{ created_at: '2026-01-01T00:00:02.000Z', context: 'For other.' },
      },
    ])
    await assert.rejects(at.as(agent('other')).call(list, {}), isRefusal('forbidden'))
  })

  test('pages have no gaps or repeats', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.operator('github:9')
    const operator = at.as(person('github:9'))
    for (let number = 0; number < 7; number++)
      await at.cli.call(issue_chat, { target_folder: 'main', jid_suffix: `s${number}` })
    const seen: string[] = []
    let after: string | undefined
    do {
      const page = await operator.call(list, { limit: 3, ...(after ? { after } : {}) })
      seen.push(...page.tokens.map(({ jid }) => jid))
      after = page.next
      // The cursor contains the token hash, so it must be encrypted.
      assert.doesNotMatch(Buffer.from(after ?? '', 'base64url').toString('latin1'), /bytes|2026/)
    } while (after)
    assert.deepEqual(
      seen.toSorted(),
      Array.from({ length: 7 }, (_, number) => `web:main/s${number}`),
    )
    await assert.rejects(operator.call(list, { after: 'nonsense' }), isRefusal('invalid', 'after is not a cursor'))
  })

  test('the command line can page without SECRETS_KEY', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    for (const jid_suffix of ['a', 'b']) await at.cli.call(issue_chat, { target_folder: 'main', jid_suffix })
    const host = { ...at.host, keyring: openKeyring(undefined) }
    const request = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
    const { next } = await callVerb(request, list, { limit: 1 })
    assert.equal((await callVerb(request, list, { limit: 1, after: next })).tokens.length, 1)
  })

  test('the tool does not list the request counts of each link', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.cli.call(issue_chat, { target_folder: 'main' })
    await at.cli.call(issue_hook, { target_folder: 'main', source_label: 'ci' })
    const [hook] = await rowsOf(at)
    const counted = { last_used_at: JAN_1, accepted: 3, refused: { too_large: 2 } }
    await at.host.engine.transaction(async (tx) => {
      if (hook) await addLinkStats(tx, at.host.engine.dialect, [{ token_hash: hook.token_hash, ...counted }])
    })
    const { tokens } = await at.cli.call(list_of, { folder: 'main' })
    assert.deepEqual(
      tokens
        .map(({ jid, last_used_at, accepted, refused }) => ({ jid, last_used_at, accepted, refused }))
        .toSorted((a, b) => (a.jid < b.jid ? -1 : 1)),
      [
        { jid: 'hook:main/ci', ...counted },
        { jid: 'web:main', last_used_at: undefined, accepted: 0, refused: {} },
      ],
    )
    for (const link of (await at.as(agent('main')).call(list, {})).tokens)
      assert.deepEqual(Object.keys(link).sort(), ['created_at', 'jid', 'owner_folder', 'target_folder'])
  })

  test('the command line lists the links that a folder owns or gets messages from', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'other')
    await at.as(agent('main')).call(issue_chat, { target_folder: 'team' })
    await at.cli.call(issue_chat, { target_folder: 'other' })
    await addLegacy(at, 'hook:team/old', 'main')
    const jids = async (folder: string) =>
      (await at.cli.call(list_of, { folder })).tokens.map(({ jid }) => jid).toSorted()
    assert.deepEqual(await jids('team'), ['hook:team/old', 'web:team'])
    assert.deepEqual(await jids('main'), ['hook:team/old', 'web:team'])
    assert.deepEqual(await jids('other'), ['web:other'])
    await assert.rejects(jids('none'), isRefusal('not_found', 'there is no group none'))
    await assert.rejects(at.as(agent('main')).call(list_of, { folder: 'main' }), isRefusal('forbidden'))
  })
})

onEveryEngine('listing over REST', (engine) => {
  test('adds counts and filters by folder on request, for administrators only', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'other')
    await at.as(agent('main')).call(issue_chat, { target_folder: 'team' })
    await at.cli.call(issue_operator_hook, {
      target_folder: 'team',
      source_label: 'ci',
      verify: 'github',
      verify_secret: 'a secret of the sender',
    })
    await at.cli.call(issue_chat, { target_folder: 'other' })
    await at.grant('github:1', 'admin', '**')
    await at.grant('github:2', 'admin', 'team')
    const app = restApp(at.host, [routeTokensResource])
    const listed = async (as: string, query: string) => {
      const { status, body } = await ask(app, `GET /v1/route_tokens?${query}`, { as })
      assert.equal(status, 200, query)
      return body as { tokens: { jid: string }[]; stats?: object[] }
    }
    const jids = async (as: string, query: string) => (await listed(as, query)).tokens.map(({ jid }) => jid).toSorted()
    assert.deepEqual(await jids('github:1', ''), ['hook:team/ci', 'web:other', 'web:team'])
    assert.deepEqual(await jids('github:1', 'folder=team'), ['hook:team/ci', 'web:team'])
    assert.deepEqual(await jids('github:2', 'folder=team'), ['hook:team/ci'])
    const { tokens, stats } = await listed('github:2', 'stats=true')
    const counts = { accepted: 0, refused: {}, stored_bytes: 0 }
    assert.deepEqual(stats, [{ verify: 'github', ...counts }])
    assert.deepEqual(Object.keys(tokens[0] ?? {}).sort(), ['created_at', 'jid', 'owner_folder', 'target_folder'])
    assert.equal((await listed('github:2', 'stats=false')).stats, undefined)
    for (const folder of ['other', 'none']) assert.deepEqual(await jids('github:2', `folder=${folder}`), [])
    assert.equal((await ask(app, 'GET /v1/route_tokens?folder=none', { as: 'github:1' })).status, 404)
  })
})

onEveryEngine('revoking', (engine) => {
  test('deletes all tokens of the JID and returns their number', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    for (const jid_suffix of [undefined, undefined, 'kept'])
      await at.cli.call(issue_chat, { target_folder: 'main', ...(jid_suffix ? { jid_suffix } : {}) })
    assert.deepEqual(await at.as(agent('main')).call(revoke, { jid: 'web:main' }), { deleted: 2 })
    assert.deepEqual(await jidsOf(at), ['web:main/kept'])
    await assert.rejects(at.as(agent('main')).call(revoke, { jid: 'web:main' }), isRefusal('not_found', 'web:main'))
  })

  test('needs admin on the issuing folder, not on the target', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'other')
    await at.as(agent('main')).call(issue_chat, { target_folder: 'team' })
    for (const folder of ['team', 'other']) await at.grant(`folder:${folder}`, 'mcp:revoke_route_token', '**')
    await at.grant('github:1', 'admin', 'team/**')
    for (const caller of [agent('team'), agent('other'), person('github:1'), person('github:2')])
      await assert.rejects(
        at.as(caller).call(revoke, { jid: 'web:team' }),
        isRefusal('forbidden', /the folder that issued web:team$/),
      )
    assert.deepEqual(await jidsOf(at), ['web:team'])
    await at.grant('github:1', 'admin', 'main')
    assert.deepEqual(await at.as(person('github:1')).call(revoke, { jid: 'web:team' }), { deleted: 1 })
  })

  test('an agent with the tool is admin only of its own subtree', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'team/a', 'team/a/b')
    for (const target_folder of ['team', 'team/a', 'team/a/b']) await at.cli.call(issue_chat, { target_folder })
    const inner = at.as(agent('team/a'))
    await assert.rejects(inner.call(revoke, { jid: 'web:team/a' }), isRefusal('forbidden', 'no rule'))
    await at.grant('folder:team/a', 'mcp:revoke_route_token', 'team/a')
    await inner.call(revoke, { jid: 'web:team/a' })
    await inner.call(revoke, { jid: 'web:team/a/b' })
    await assert.rejects(inner.call(revoke, { jid: 'web:team' }), isRefusal('forbidden', 'that issued web:team'))
  })

  test('removing either folder deletes the token', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'other')
    const main = at.as(agent('main'))
    await main.call(issue_chat, { target_folder: 'team' })
    await main.call(issue_chat, { target_folder: 'other' })
    await at.cli.call(issue_chat, { target_folder: 'main' })
    await at.cli.call(removeGroup, { folder: 'team' })
    assert.deepEqual(await jidsOf(at), ['web:main', 'web:other'])
    await at.host.engine.transaction((tx) => groups.remove(tx, { folder: 'main' }))
    assert.deepEqual(await jidsOf(at), [])
  })
})

onEveryEngine('rows without a target', (engine) => {
  test('get their target from the JID, also for conflicts', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'team/forms', 'a', 'a/b')
    await addLegacy(at, 'web:team', 'team')
    await addLegacy(at, 'hook:a/b/c', 'a')
    const { engine: store, routes } = at.host
    const folderOf = (jid: string) => store.read((tx) => findChatFolder(tx, jid, () => routes.read(tx)))
    assert.deepEqual([await folderOf('web:team'), await folderOf('hook:a/b/c')], ['team', 'a/b'])
    await at.cli.call(issue_chat, { target_folder: 'team' })
    await assert.rejects(at.as(agent('main')).call(issue_chat, { target_folder: 'team' }), isRefusal('conflict'))
    await at.grant('folder:a', 'mcp:issue_webhook', 'a/**')
    const a = at.as(agent('a'))
    await assert.rejects(a.call(issue_hook, { source_label: 'b', jid_suffix: 'c' }), isRefusal('conflict'))
    await a.call(issue_hook, { target_folder: 'a/b', source_label: 'c' })
    assert.deepEqual(await at.cli.call(revoke, { jid: 'web:team' }), { deleted: 2 })
  })

  test('are listed without a target and deleted with their owner', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team')
    await addLegacy(at, 'web:team/old', 'team')
    const { tokens } = await at.cli.call(list, {})
    assert.deepEqual(tokens, [{ jid: 'web:team/old', owner_folder: 'team', created_at: JAN_1 }])
    await at.cli.call(removeGroup, { folder: 'team' })
    assert.deepEqual(await jidsOf(at), [])
  })
})

onEveryEngine('audit', (engine) => {
  test('has one row for each change and each refusal, none for a list, and never a token', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    const [main, team] = [at.as(agent('main')), at.as(agent('team'))]
    const tokens: string[] = []
    const calls = await auditedCalls(at, async () => {
      tokens.push((await main.call(issue_chat, { context: 'Be brief.' })).token)
      tokens.push((await main.call(issue_hook, { source_label: 'ci' })).token)
      await main.call(list, {})
      await team.call(issue_chat, {}).catch(() => {})
      await team.call(issue_chat, { jid_suffix: 'a/b' }).catch(() => {})
      await main.call(revoke, { jid: 'web:main' })
      await main.call(revoke, { jid: 'web:main' }).catch(() => {})
    })
    const by = { actor: 'folder:main', outcome: 'ok', surface: 'tool' }
    assert.deepEqual(calls, [
      { ...by, action: 'route_tokens.issue_chat', key: 'web:main' },
      { ...by, action: 'route_tokens.issue_hook', key: 'hook:main/ci' },
      { ...by, action: 'route_tokens.issue_chat', key: '', actor: 'folder:team', outcome: 'denied' },
      { ...by, action: 'route_tokens.revoke', key: 'web:main' },
    ])
    const store = await wholeStore(at)
    for (const token of tokens) assert.ok(!store.includes(token))
  })

  test('a change is rolled back if its audit row cannot be written', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.cli.call(issue_chat, { target_folder: 'main' })
    await breakAudit(at)
    await assert.rejects(at.as(agent('main')).call(issue_chat, { jid_suffix: 'new' }), /audit/)
    await assert.rejects(at.as(agent('main')).call(revoke, { jid: 'web:main' }), /audit/)
    assert.deepEqual(await jidsOf(at), ['web:main'])
    assert.equal((await at.as(agent('main')).call(list, {})).tokens.length, 1)
  })
})
