import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { demoCli, testCli } from '../../test/support/cli.ts'
import { svcCommands } from './commands/index.ts'

suite('a usage error', () => {
  const cases: Record<string, [string[], string]> = {
    'an unknown command': [
      ['gaet', 'demo'],
      'svc: unknown command "gaet"; did you mean gate?\nhint: svc help lists every command\n',
    ],
    'a command of a later version': [
      ['dashboard', 'demo'],
      'svc: unknown command "dashboard"\nhint: svc help lists every command\n',
    ],
    'nothing but a flag': [['--wat=s3cret'], 'svc: unknown flag "--wat"\nhint: svc help lists every command\n'],
    'a name of every object': [
      ['constructor'],
      'svc: unknown command "constructor"\nhint: svc help lists every command\n',
    ],
    nothing: [[], 'svc: a command is missing\nhint: svc help lists every command\n'],
    'too few arguments': [
      ['gate', 'demo', 'add', 'team'],
      "svc: <limit> is missing\nusage: svc gate <instance> add <spec> <limit>\nexample: svc gate demo add 'team/**' 10/day\n",
    ],
    'an argument that starts with a dash': [
      ['invite', 'demo', 'revoke', '-abc'],
      'svc: unknown flag -a…\nhint: put an argument that starts with "-" after --\n' +
        'usage: svc invite <instance> revoke <token_id>\nexample: svc invite demo revoke XyQ2mB7kPq1d\n',
    ],
  }
  for (const [what, [words, stderr]] of Object.entries(cases))
    test(`${what} is reported on stderr with exit code 1`, async (t) => {
      assert.deepEqual(await testCli(t).run(words), { code: 1, stdout: '', stderr })
    })
})

test('a flag may come before the command', async (t) => {
  const cli = await demoCli(t)
  assert.deepEqual(JSON.parse(await cli.ok('--json gate demo list')), [])
  assert.match(await cli.ok('--help gate demo list'), /^usage: svc gate <instance> list/)
})

test('a word after a flag before the command is its value and is never repeated', async (t) => {
  const cli = await demoCli(t)
  assert.match(await cli.ok(['-c', 'Be brief.', 'token', 'demo', 'issue', 'chat', 'main']), /^jid: web:main\n/)
  for (const words of ['--value s3cret secert demo set main K', '--value s3cret', 'secret demo set main K -vs3cret']) {
    const { code, stderr } = await cli.run(words)
    assert.equal(code, 1)
    assert.doesNotMatch(stderr, /s3cret/)
  }
})

test('the audit log contains the user of the machine and never a secret', async (t) => {
  const cli = await demoCli(t)
  await cli.ok('secret demo set main API_KEY --value -', { stdin: 's3cret' })
  await cli.ok('group demo grant github:1 team')
  const { DatabaseSync } = await import('node:sqlite')
  const db = new DatabaseSync(`${cli.root}/store/svc.db`, { readOnly: true })
  t.after(() => db.close())
  const rows = db.prepare('select actor, action, surface, outcome, params_summary from audit order by id').all()
  assert.deepEqual(
    rows.map(({ action, surface, outcome }) => [action, surface, outcome]),
    [
      ['groups.add', 'cli', 'ok'],
      ['secrets.create', 'cli', 'ok'],
      ['acl.grant', 'cli', 'ok'],
    ],
  )
  for (const { actor, params_summary } of rows) {
    assert.match(String(actor), /^cli:\S+$/)
    assert.doesNotMatch(String(params_summary), /s3cret/)
  }
})

test('no arguments cause an internal error', async (t) => {
  const cli = await demoCli(t)
  // Without commands that write to any path or do not end by themselves.
  const nouns = Object.keys(svcCommands).filter(
    (noun) => !['export', 'backup', 'serve', 'start', 'run', 'logs'].includes(noun),
  )
  const actions = [
    'list',
    'add',
    'rm',
    'issue',
    'chat',
    'webhook',
    'set',
    'show',
    'folder',
    'user',
    'allow',
    'grant',
    'link',
  ]
  const word = fc.oneof(
    fc.constantFrom('demo', 'main', '--', '-', '**', '-c', '--value', ...actions),
    fc.string({ unit: 'binary' }),
  )
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...nouns), fc.array(word, { maxLength: 6 }), async (noun, words) => {
      const { code, stderr } = await cli.run([noun, 'demo', ...words])
      // `send` exits with 2 without a server; all runs share one instance, which may have links.
      const isRefused = code === (noun === 'send' && stderr.includes('svc serve') ? 2 : 1) && /^svc: /m.test(stderr)
      assert.ok(code === 0 || isRefused || noun === 'doctor', `${code}: ${stderr}`)
      assert.doesNotMatch(stderr, /internal error/)
    }),
    { numRuns: 150 },
  )
})

test('a list of thousands of rows is printed in full', async (t) => {
  const cli = await demoCli(t)
  const gates = Array.from({ length: 2500 }, (_, at) => `  - spec: g${at}\n    daily_limit: 1\n    enabled: true\n`)
  await cli.ok('apply demo -', { stdin: `config_version: 1\nonboarding_gates:\n${gates.join('')}` })
  assert.equal((await cli.ok('gate demo list')).split('\n').length, 2502)
  assert.equal(JSON.parse(await cli.ok('gate demo list --json')).length, 2500)
})
