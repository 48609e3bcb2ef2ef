import assert from 'node:assert/strict'
import { after, suite, test } from 'node:test'
import { demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'

onEveryEngine('svc token', (engine) => {
  test('issue prints jid, token and url, and list shows the link without its token', async (t) => {
    const cli = await demoCliOn(t, engine)
    const lines = (await cli.ok(['token', 'demo', 'issue', 'chat', 'main', 'site', '-c', 'Be\tbrief\n'])).split('\n')
    const [jid = '', token = '', url = ''] = lines
    assert.equal(jid, 'jid: web:main/site')
    const raw = /^token: ([A-Za-z0-9_-]{43})$/.exec(token)?.[1] ?? ''
    assert.equal(url, `url: http://localhost:8080/chat/${raw}/`)
    const listed = await cli.ok('token demo list main')
    const [header, row] = listed.split('\n')
    assert.equal(header, 'JID\tOWNER\tTARGET\tCREATED_AT\tLAST_USED\tTOOLS\tVISITORS\tVERIFY\tANSWER_TO\tCONTEXT')
    assert.match(row ?? '', /^web:main\/site\tmain\tmain\t\S+Z\t-\tchat\ttogether\t-\t-\tBe\\tbrief\\n$/)
    assert.ok(raw && !listed.includes(raw))
    assert.ok(!(await cli.ok('token demo list main --json')).includes(raw))
  })

  test('issue webhook puts the source into the JID and prints a hook URL', async (t) => {
    const cli = await demoCliOn(t, engine)
    const minted = await cli.ok('token demo issue webhook main github push')
    assert.match(minted, /^jid: hook:main\/github\/push\n/)
    assert.match(minted, /^url: http:\/\/localhost:8080\/hook\/[A-Za-z0-9_-]{43}$/m)
  })

  test('issue webhook can require signatures, with a secret from stdin', async (t) => {
    const cli = await demoCliOn(t, engine)
    const line = 'token demo issue webhook main shop --verify hmac:X-Shop-Hmac --verify-secret -'
    assert.match(await cli.ok(line, { stdin: 's3cret\n' }), /^jid: hook:main\/shop\n/)
    const listed = await cli.ok('token demo list main')
    assert.match(listed, /^hook:main\/shop\tmain\tmain\t\S+\t-\twork\t-\thmac:X-Shop-Hmac\t/m)
    const json = await cli.ok('token demo list main --json')
    assert.equal(JSON.parse(json)[0].verify, 'hmac:X-Shop-Hmac')
    assert.doesNotMatch(listed + json, /s3cret|secret/)
  })

  test('issue webhook can send answers to a URL, whose secret is shown once, or to a chat', async (t) => {
    const cli = await demoCliOn(t, engine)
    const url = 'https://ci.example.com/answers?key=1'
    const minted = await cli.ok(['token', 'demo', 'issue', 'webhook', 'main', 'ci', '--answer-to', url])
    const secret = /^answer_secret: (whsec_[A-Za-z0-9+/]{43}=)$/m.exec(minted)?.[1] ?? assert.fail(minted)
    const chat = await cli.ok('token demo issue webhook main other --answer-to sandbox:lobby')
    assert.doesNotMatch(chat, /answer_secret/)
    const listed = await cli.ok('token demo list main')
    assert.match(listed, /^hook:main\/other\tmain\tmain\t\S+\t-\twork\t-\t-\tsandbox:lobby\t-$/m)
    const json = await cli.ok('token demo list main --json')
    assert.deepEqual(
      JSON.parse(json).map(({ answer_to }: { answer_to: string }) => answer_to),
      ['sandbox:lobby', url],
    )
    assert.ok(!`${listed}${json}`.includes(secret))
  })

  test('issue sets the tools of a link, and list shows them', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('token demo issue chat main a --tools work')
    await cli.ok('token demo issue webhook main ci --tools all')
    await cli.ok('token demo issue webhook main other')
    const rows = (await cli.ok('token demo list main')).trim().split('\n').slice(1)
    const shown = rows.map((row) => row.split('\t')).map((cells) => `${cells[0]} ${cells[5]}`)
    assert.deepEqual(shown.sort(), ['hook:main/ci all', 'hook:main/other work', 'web:main/a work'])
  })

  test('list without a folder shows the links of all folders', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.deepEqual(await cli.run('token demo list'), { code: 0, stdout: '', stderr: 'no tokens\n' })
    await cli.ok('group demo add sandbox:lobby team')
    await cli.ok('token demo issue chat main')
    await cli.ok('token demo issue webhook team ci')
    const jids = async (line: string): Promise<string[]> =>
      JSON.parse(await cli.ok(`${line} --json`)).map(({ jid }: { jid: string }) => jid)
    assert.deepEqual((await jids('token demo list')).sort(), ['hook:team/ci', 'web:main'])
    assert.deepEqual(await jids('token demo list team'), ['hook:team/ci'])
    const unknown = await cli.run('token demo list nope')
    assert.deepEqual([unknown.code, unknown.stderr], [1, 'svc: there is no group nope\n'])
  })

  test('test posts through a link, and replay posts that message again', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('token demo issue webhook main ci')
    const [, id = ''] =
      /^sent test message (\S+) through hook:main\/ci\n$/.exec(await cli.ok('token demo test hook:main/ci')) ?? []
    const [, again = ''] = /^sent message (\S+)\n$/.exec(await cli.ok(`token demo replay ${id}`)) ?? []
    assert.ok(id && again && id !== again)
    for (const each of [id, again])
      assert.match(await cli.ok(`messages demo show ${each}`), /This is a test of this link/)
    const unknown = await cli.run('token demo test hook:main/none')
    assert.deepEqual([unknown.code, unknown.stderr], [1, 'svc: there is no token at hook:main/none\n'])
  })

  test('revoke deletes all links of a JID', async (t) => {
    const cli = await demoCliOn(t, engine)
    for (const _ of [1, 2]) await cli.ok('token demo issue chat main')
    assert.equal(await cli.ok('token demo revoke web:main'), 'revoked web:main (2 tokens)\n')
    const again = await cli.run('token demo revoke web:main')
    assert.deepEqual([again.code, again.stderr], [1, 'svc: there is no token at web:main\n'])
    assert.deepEqual(await cli.run('token demo list main'), { code: 0, stdout: '', stderr: 'no tokens of main\n' })
  })

  test('revoke refuses a folder that does not own the link', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('token demo issue chat team')
    const other = await cli.run('token demo revoke web:team main')
    assert.deepEqual([other.code, other.stderr], [1, 'svc: main owns no token at web:team\n'])
    assert.match(await cli.ok('token demo list team'), /web:team/)
    assert.equal(await cli.ok('token demo revoke web:team team'), 'revoked web:team (1 token)\n')
  })

  test('issue refuses a JID that another folder has minted', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add slack:1 team')
    await cli.ok('group demo add slack:2 team/forms')
    await cli.ok('token demo issue chat team forms')
    const { code, stderr } = await cli.run('token demo issue chat team/forms')
    assert.equal(code, 1)
    assert.match(stderr, /minted by the folder team already\nhint: choose another suffix/)
  })
})

suite('svc token refuses', () => {
  const demo = demoCli({ after })
  const cases: Record<string, [string, RegExp]> = {
    'a suffix that leaves the folder': ['issue chat main x/..', /jid_suffix must be 1 to 64 letters/],
    'a source with a blank': ['issue webhook main a%20b', /source_label must be/],
    'a folder that is not a group': ['issue chat nobody', /there is no group nobody/],
    'a list of a folder that is not a group': ['list nobody', /there is no group nobody/],
    'an unknown kind': ['issue hook main x', /unknown subcommand "hook"/],
    'an unknown reach': ['issue chat main --tools some', /tools must be chat, work or all|tools must be one of/],
    'an unknown signature scheme': ['issue webhook main x --verify md5 --verify-secret -', /must be github, standard/],
    'a secret on the command line': ['issue webhook main x --verify github --verify-secret s3', /shell history/],
    'signatures without a secret': ['issue webhook main x --verify github', /hint: --verify-secret - reads it/],
    'an empty secret': ['issue webhook main x --verify github --verify-secret -', /secret must not be empty/],
    'answers to plain http': [
      'issue webhook main x --answer-to http://a.example/',
      /answer_to must be a URL that starts/,
    ],
    'answers to a link': ['issue webhook main x --answer-to web:main', /links cannot answer to each other/],
    'answers of a chat link': ['issue chat main x --answer-to sandbox:lobby', /--answer-to is not for this command/],
    'a secret without --verify': ['issue webhook main x --verify-secret -', /--verify-secret needs --verify/],
    'an invalid JID': ['revoke main', /jid must look like platform:room/],
  }
  for (const [what, [line, sentence]] of Object.entries(cases))
    test(what, async () => {
      const { code, stdout, stderr } = await (await demo).run(`token demo ${line}`)
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, sentence)
    })
})

test('uses the host of the instance in links, not that of the shell', async (t) => {
  const cli = await demoCli(t)
  const minted = await cli.ok('token demo issue chat main', { env: { WEB_HOST: 'evil.example' } })
  assert.match(minted, /^url: http:\/\/localhost:8080\//m)
})
