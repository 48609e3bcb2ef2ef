// `svc send` before it connects to a server. test/e2e tests the rest with real processes.
import assert from 'node:assert/strict'
import { after, suite, test } from 'node:test'
import { demoCli } from '../../../test/support/cli.ts'

suite('svc send refuses', () => {
  const demo = demoCli({ after })
  const cases: Record<string, [words: string[], sentence: RegExp, stdin?: string]> = {
    'a message and stdin': [['hello', '--stdin'], /give a message or --stdin, not both/],
    'no message': [[], /no message given\nhint: add a message, --file or --stdin/],
    'an empty message': [[''], /the message is empty/],
    'an empty stdin': [['--stdin'], /the message is empty/, ' \n\t\n'],
    'a second message': [['hello', 'there'], /too many arguments/],
    'a file that does not exist': [
      ['hello', '--file', '/no/such/file'],
      /cannot read \/no\/such\/file: it does not exist/,
    ],
    'a directory as a file': [['hello', '--file', import.meta.dirname], /cannot read \S+: it is a directory\n$/],
    'a device as a file': [
      ['--file', import.meta.filename, '--file', '/dev/null'],
      /null: it is not a regular file\n$/,
    ],
    'a folder without a link': [['hello'], /hint: svc token demo issue chat main mints one/],
  }
  for (const [what, [words, sentence, stdin = '']] of Object.entries(cases))
    test(what, async () => {
      const { code, stdout, stderr } = await (await demo).run(['send', 'demo', 'main', ...words], { stdin })
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, sentence)
    })

  test('stdin that is not text', async () => {
    const { code, stderr } = await (await demo).run('send demo main --stdin', { stdin: Buffer.of(0xff) })
    assert.deepEqual([code, stderr], [1, 'svc: stdin is not UTF-8 text\n'])
  })
})
