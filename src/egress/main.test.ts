import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { egressProxy } from '../../test/support/egress-cli.ts'
import { commands } from './commands/index.ts'
import { helpText } from './help-text.ts'

suite('what is typed wrongly is said on stderr, with exit code 2', () => {
  const lists = 'hint: egress-proxy help lists every command\n'
  const running =
    'usage: egress-proxy run --allow <list> [--id <name>] [--image <img>] [--deny-private] -- <command>…\n'
  const cases: Record<string, [string[], string]> = {
    nothing: [[], `egress-proxy: a command is missing\n${lists}`],
    'an unknown command': [['chekc'], `egress-proxy: unknown command "chekc"; did you mean check?\n${lists}`],
    'half of a command': [['serve'], `egress-proxy: unknown command "serve"; did you mean proxy serve?\n${lists}`],
    'the other half': [['proxy'], 'egress-proxy: serve is missing\nusage: egress-proxy proxy serve '],
    'an unknown flag': [['state', '--adnim', 'x'], 'egress-proxy: unknown flag --adnim; did you mean --admin?\n'],
    'an address without its flag': [['proxy', 'serve', ':3128'], 'egress-proxy: too many arguments\n'],
    'run without a list': [['run', '--', 'ls'], `egress-proxy: --allow is missing\n${running}`],
    'run without a command': [
      ['run', '--allow', 'a.example'],
      `egress-proxy: <command> is missing behind --\n${running}`,
    ],
    'run with nothing behind --': [
      ['run', '--allow', 'a.example', '--'],
      `egress-proxy: <command> is missing behind --\n${running}`,
    ],
    'run with a list that has blanks': [
      ['run', '--allow', 'a.example', 'b.example', '--', 'ls'],
      `egress-proxy: too many words before --: <command> goes behind it\n${running}`,
    ],
    'run with what can be no entry': [
      ['run', '--allow', 'https://a.example', '--', 'ls'],
      'egress-proxy: --allow: "https://a.example" is a URL; an entry is a host name alone: write a.example.\n',
    ],
    'check without a list': [['check', 'a.example'], 'egress-proxy: --allow is missing\n'],
    'check without a host': [['check', '--allow', 'a.example'], 'egress-proxy: <host> is missing\n'],
  }
  for (const [what, [words, said]] of Object.entries(cases))
    test(what, async () => {
      const { code, stdout, stderr } = await egressProxy(words)
      assert.deepEqual([code, stdout], [2, ''])
      assert.ok(stderr.startsWith(said), stderr)
    })
})

suite('help', () => {
  test('is the file that the front prints, with every command and an example of each', async () => {
    const page = await helpText()
    const file = readFileSync(new URL('../../bin/help-egress-proxy.txt', import.meta.url), 'utf8')
    assert.equal(file, page, 'npm run golden writes it')
    for (const load of Object.values(commands))
      for (const { usage, example } of await load())
        assert.ok(page.includes(`  egress-proxy ${usage}\n`) && page.includes(`$ egress-proxy ${example}\n`))
  })
  test('explains one command, wherever it is asked for', async () => {
    const { stdout } = await egressProxy(['help', 'run'])
    assert.match(stdout, /^usage: egress-proxy run --allow <list>.*\n {2}.*\nexample: egress-proxy run /)
    for (const words of [
      ['run', '--help'],
      ['-h', 'run'],
      ['run', '--allow', 'x', '--help', '--', 'ls'],
    ])
      assert.deepEqual(await egressProxy(words), { code: 0, stdout, stderr: '' })
  })
  test('finds the command that was meant', async () => {
    const { code, stderr } = await egressProxy(['help', 'sate'])
    assert.deepEqual([code, stderr], [1, 'egress-proxy: unknown command "sate"; did you mean state?\n'])
  })
})

test('whatever is typed is answered, and never with an internal error', async () => {
  // Those that make or run something are left out.
  const nouns = Object.keys(commands).filter((noun) => !['proxy', 'run'].includes(noun))
  const known = ['--', '-', '--json', '--allow', '--allow=x', '--admin', ':1', '--denied', 'a.example', 'http://[', '*']
  const word = fc.oneof(fc.constantFrom(...known), fc.string({ unit: 'binary' }))
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...nouns), fc.array(word, { maxLength: 5 }), async (noun, words) => {
      const env = { EGRESS_ADMIN: 'http://127.0.0.1:1' }
      // What a word stands for may be a host elsewhere: those are not asked.
      fc.pre(noun !== 'state' || !words.some((each) => /^(?:--admin|[^-])/.test(each)))
      const { code, stderr } = await egressProxy([noun, ...words], { env })
      assert.ok([0, 1, 2].includes(code), stderr)
      assert.doesNotMatch(stderr, /internal error/)
    }),
    { numRuns: 300 },
  )
})
