import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { type ParsedCommandLine, readArguments } from './argv.ts'
import type { ArgumentValues, CommandDescription } from './usage.ts'

const line = (usage: string): CommandDescription => ({ usage, about: '', example: '' })

const ISSUE = line('token <instance> issue chat <folder> [<suffix>] [--context|-c <text>]')
const HOOK = line('token <instance> issue webhook <folder> <source> [--context|-c <text>]')
const LIST = line('token <instance> list <folder> [--json]')
const TOKEN = [ISSUE, HOOK, LIST]
const BUDGET = [line('budget <instance> set <target> --daily|-d <cents>')]
const APPLY = [line('apply <instance> <file> [--force|-f] [--dry-run]')]
const MESSAGES = [line('messages <instance> [<folder>] [--json]'), line('messages <instance> show <id>')]
const SERVE = [line('serve <instance> [<daemon>…]')]
const PROXY = [line('proxy serve [--listen <addr>]')]
const SEND = [line('send [<text>] [--file|-f <path>…]')]
const RUN = [line('run --allow <list> [--deny-private] -- <command>…')]

function run(reading: ParsedCommandLine<CommandDescription>): ArgumentValues {
  if (reading.kind !== 'run') throw new Error(`it is ${reading.kind}: ${reading.kind === 'wrong' ? reading.fault : ''}`)
  return reading.args
}

function fault(commands: readonly CommandDescription[], ...argv: string[]): string {
  const reading = readArguments(commands, argv)
  return reading.kind === 'wrong' ? reading.fault : `it is ${reading.kind}`
}

const MINTED = { instance: 'demo', folder: 'main', context: 'be brief' }

suite('finds flags in any position', () => {
  const cases: Record<string, string[]> = {
    first: ['--context', 'be brief', 'demo', 'issue', 'chat', 'main'],
    last: ['demo', 'issue', 'chat', 'main', '--context', 'be brief'],
    between: ['demo', 'issue', '--context', 'be brief', 'chat', 'main'],
    'with an equals sign': ['demo', 'issue', '--context=be brief', 'chat', 'main'],
    'by their letter': ['demo', 'issue', 'chat', '-c', 'be brief', 'main'],
    'by their letter and an equals sign': ['demo', '-c=be brief', 'issue', 'chat', 'main'],
    'before the end of flags': ['-c', 'be brief', '--', 'demo', 'issue', 'chat', 'main'],
  }
  for (const [where, argv] of Object.entries(cases))
    test(where, () => assert.deepEqual(run(readArguments(TOKEN, argv)), MINTED))
})

suite('takes a flag value as it is', () => {
  const context = (...argv: string[]) => run(readArguments(TOKEN, ['demo', 'issue', 'chat', 'main', ...argv])).context
  test('even if it looks like a flag', () => assert.equal(context('--context', '--help'), '--help'))
  test('even if it is a negative number', () => assert.equal(context('-c', '-10'), '-10'))
  test('even if it ends flags', () => assert.equal(context('-c', '--'), '--'))
  test('even if it is empty', () => assert.equal(context('--context='), ''))
  test('with all of its equals signs and lines', () => assert.equal(context('--context=a=b\nc'), 'a=b\nc'))
})

test('a repeatable flag may be given any number of times', () => {
  const files = (...argv: string[]) => run(readArguments(SEND, argv)).file
  assert.deepEqual(files(), [])
  assert.deepEqual(files('--file', 'a,b', 'hi', '-f=c d', '--file', 'a,b'), ['a,b', 'c d', 'a,b'])
  assert.equal(fault(SEND, '--file'), '--file needs a value')
})

suite('words', () => {
  test('an optional word may be there', () =>
    assert.equal(run(readArguments(TOKEN, ['demo', 'issue', 'chat', 'main', 'site'])).suffix, 'site'))
  test('or not', () => assert.equal('suffix' in run(readArguments(TOKEN, ['demo', 'issue', 'chat', 'main'])), false))
  test('does not read flags after --', () => assert.equal(run(readArguments(APPLY, ['demo', '--', '-f'])).file, '-f'))
  test('a lone dash is a word', () => assert.equal(run(readArguments(APPLY, ['demo', '-'])).file, '-'))
  test('prefers a literal word over a placeholder', () => {
    assert.deepEqual(run(readArguments(MESSAGES, ['demo', 'show', 'x'])), { instance: 'demo', id: 'x' })
    assert.deepEqual(run(readArguments(MESSAGES, ['demo', 'main'])), { instance: 'demo', folder: 'main', json: false })
    assert.deepEqual(run(readArguments(MESSAGES, ['demo'])), { instance: 'demo', json: false })
    assert.equal(fault(MESSAGES, 'demo', 'show'), '<id> is missing')
    assert.equal(fault(MESSAGES, 'demo', 'main', 'more'), 'too many arguments')
  })
  test('the rest may be many', () =>
    assert.deepEqual(run(readArguments(SERVE, ['demo', 'webd', 'timed'])).daemon, ['webd', 'timed']))
  test('or none', () => assert.deepEqual(run(readArguments(SERVE, ['demo'])).daemon, []))
  test('a switch is true or false', () =>
    assert.deepEqual(run(readArguments(APPLY, ['demo', 'x', '-f'])), {
      instance: 'demo',
      file: 'x',
      force: true,
      dryRun: false,
    }))
})

suite('a command after --', () => {
  const command = (...argv: string[]) => run(readArguments(RUN, argv)).command
  test('is taken unchanged, including dashes', () => {
    assert.deepEqual(command('--allow', 'a', '--', 'curl', '--help', '-x'), ['curl', '--help', '-x'])
    assert.deepEqual(command('--allow=a', '--', '--', '--allow', ''), ['--', '--allow', ''])
  })
  test('is required, and only flags may precede it', () => {
    assert.equal(fault(RUN, '--allow', 'a'), '<command> is missing after --')
    assert.equal(fault(RUN, '--allow', 'a', '--'), '<command> is missing after --')
    const before = 'too many words before --: <command> goes after it'
    assert.equal(fault(RUN, '--allow', 'a', 'b', '--', 'curl'), before)
    assert.equal(fault(RUN, '--allow', 'a', 'curl', 'x'), before)
  })
  test('does not contain flags of the program', () =>
    assert.equal(fault(RUN, '--', 'curl', '--allow', 'a'), '--allow is missing'))
})

suite('reports usage errors with the closest usage lines', () => {
  const sentences: [string, readonly CommandDescription[], string[]][] = [
    ['<instance> is missing', TOKEN, []],
    ['one of issue, list is missing', TOKEN, ['demo']],
    ['serve is missing', PROXY, []],
    ['one of chat, webhook is missing', TOKEN, ['demo', 'issue']],
    ['<folder> is missing', TOKEN, ['demo', 'issue', 'chat']],
    ['<source> is missing', TOKEN, ['demo', 'issue', 'webhook', 'main']],
    ['unknown subcommand "isue"; did you mean issue?', TOKEN, ['demo', 'isue', 'chat']],
    ['unknown subcommand "hat"; did you mean chat?', TOKEN, ['demo', 'issue', 'hat']],
    ['too many arguments', TOKEN, ['demo', 'list', 'main', 's3cret']],
    ['unknown flag --contxt; did you mean --context?', TOKEN, ['demo', 'issue', 'chat', 'main', '--contxt', 'x']],
    ['unknown flag --forse; did you mean --force?', APPLY, ['demo', 'x', '--forse=s3cret']],
    ['unknown flag -x', APPLY, ['demo', 'x', '-x']],
    ['--context needs a value', TOKEN, ['demo', 'issue', 'chat', 'main', '--context']],
    ['--context is given twice', TOKEN, ['demo', 'issue', 'chat', 'main', '-c', 'a', '--context', 'a']],
    ['--force is given twice', APPLY, ['demo', 'x', '-f', '-f']],
    ['--force takes no value', APPLY, ['demo', 'x', '--force=yes']],
    ['--daily is missing', BUDGET, ['demo', 'set', 'main']],
    ['--context is not for this command', TOKEN, ['demo', 'list', 'main', '-c', 'x']],
    ['--json is not for this command', TOKEN, ['demo', 'issue', 'chat', 'main', '--json']],
  ]
  for (const [sentence, commands, argv] of sentences)
    test(`${argv.join(' ') || '(nothing)'}: ${sentence}`, () => assert.equal(fault(commands, ...argv), sentence))

  test('lists the usage lines that the words still allow', () => {
    const reading = readArguments(TOKEN, ['demo', 'issue'])
    assert.deepEqual(reading.kind === 'wrong' && reading.about, [ISSUE, HOOK])
  })
  test('suggests -- for an argument that starts with a dash', () => {
    const reading = readArguments(TOKEN, ['demo', 'list', '-abc'])
    assert.match((reading.kind === 'wrong' && reading.hint) || '', /after --/)
  })
})

suite('explains the command for --help in any position', () => {
  for (const argv of [
    ['demo', 'list', '--help'],
    ['-h', 'demo', 'list'],
    ['demo', 'list', 'x', 'y', '--wat', '--help'],
  ])
    test(argv.join(' '), () => {
      const reading = readArguments(TOKEN, argv)
      assert.deepEqual(reading.kind === 'help' && reading.about, [LIST])
    })
})
