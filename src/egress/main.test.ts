import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { egressProxy } from '../../test/support/egress-cli.ts'
import { egressCommands } from './commands/index.ts'
import { egressHelpText } from './help-text.ts'

suite('wrong usage is reported on stderr with exit code 1', () => {
  const listHint = 'hint: egress-proxy help lists every command\n'
  const runUsage =
    'usage: egress-proxy run --allow <list> [--id <name>] [--image <img>] [--deny-private] -- <command>…\n'
  const cases: Record<string, [string[], string]> = {
    nothing: [[], `egress-proxy: a command is missing\n${listHint}`],
    'an unknown command': [['chekc'], `egress-proxy: unknown command "chekc"; did you mean check?\n${listHint}`],
    'the second word of a command': [
      ['serve'],
      `egress-proxy: unknown command "serve"; did you mean proxy serve?\n${listHint}`,
    ],
    'the first word of a command': [['proxy'], 'egress-proxy: serve is missing\nusage: egress-proxy proxy serve '],
    'an unknown flag': [['state', '--adnim', 'x'], 'egress-proxy: unknown flag --adnim; did you mean --admin?\n'],
    'an address without its flag': [['proxy', 'serve', ':3128'], 'egress-proxy: too many arguments\n'],
    'run without a list': [['run', '--', 'ls'], `egress-proxy: --allow is missing\n${runUsage}`],
    'run without a command': [
      ['run', '--allow', 'a.example'],
      `egress-proxy: <command> is missing after --\n${runUsage}`,
    ],
    'run with nothing after --': [
      ['run', '--allow', 'a.example', '--'],
      `egress-proxy: <command> is missing after --\n${runUsage}`,
    ],
    'run with a list that has spaces': [
      ['run', '--allow', 'a.example', 'b.example', '--', 'ls'],
      `egress-proxy: too many words before --: <command> goes after it\n${runUsage}`,
    ],
    'run with an invalid entry': [
      ['run', '--allow', 'https://a.example', '--', 'ls'],
      'egress-proxy: --allow: "https://a.example" is a URL; an entry is a host name alone: write a.example.\n',
    ],
    'check without a list': [['check', 'a.example'], 'egress-proxy: --allow is missing\n'],
    'check without a host': [['check', '--allow', 'a.example'], 'egress-proxy: <host> is missing\n'],
  }
  for (const [name, [words, message]] of Object.entries(cases))
    test(name, async () => {
      const { code, stdout, stderr } = await egressProxy(words)
      assert.deepEqual([code, stdout], [1, ''])
      assert.ok(stderr.startsWith(message), stderr)
    })
})

suite('help', () => {
  test('equals the file that the launcher prints, with every command and an example of each', async () => {
    const page = await egressHelpText()
    const file = readFileSync(new URL('../../bin/help-egress-proxy.txt', import.meta.url), 'utf8')
    assert.equal(file, page, 'npm run golden writes it')
    for (const load of Object.values(egressCommands))
      for (const { usage, example } of await load())
        assert.ok(page.includes(`  egress-proxy ${usage}\n`) && page.includes(`$ egress-proxy ${example}\n`))
  })
  test('explains one command, in any position', async () => {
    const { stdout } = await egressProxy(['help', 'run'])
    assert.match(stdout, /^usage: egress-proxy run --allow <list>.*\n {2}.*\nexample: egress-proxy run /)
    for (const words of [
      ['run', '--help'],
      ['-h', 'run'],
      ['run', '--allow', 'x', '--help', '--', 'ls'],
    ])
      assert.deepEqual(await egressProxy(words), { code: 0, stdout, stderr: '' })
  })
  test('suggests the command that was meant', async () => {
    const { code, stderr } = await egressProxy(['help', 'sate'])
    assert.deepEqual([code, stderr], [1, 'egress-proxy: unknown command "sate"; did you mean state?\n'])
  })
})

test('no command line causes an internal error', async () => {
  // Commands that create or run something are left out.
  const nouns = Object.keys(egressCommands).filter((noun) => !['proxy', 'run'].includes(noun))
  const known = ['--', '-', '--json', '--allow', '--allow=x', '--admin', ':1', '--denied', 'a.example', 'http://[', '*']
  const word = fc.oneof(fc.constantFrom(...known), fc.string({ unit: 'binary' }))
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...nouns), fc.array(word, { maxLength: 5 }), async (noun, words) => {
      const env = { EGRESS_ADMIN: 'http://127.0.0.1:1' }
      // An argument may be another host, which must not be contacted.
      fc.pre(noun !== 'state' || !words.some((each) => /^(?:--admin|[^-])/.test(each)))
      const { code, stderr } = await egressProxy([noun, ...words], { env })
      assert.ok([0, 1].includes(code), stderr)
      assert.doesNotMatch(stderr, /internal error/)
    }),
    { numRuns: 300 },
  )
})
