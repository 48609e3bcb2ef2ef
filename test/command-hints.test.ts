// Commands of svc that hints, messages, findings of doctor and pages name can be typed as shown.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { svcCommands } from '../src/cli/commands/index.ts'
import { demoCli } from './support/cli.ts'
import { commandsIn, fillIn, type NamedCommand, textsWithCommands } from './support/named-commands.ts'

/** Its words are those that an operator typed in a chat. */
const TYPED_IN_CHAT = /chat-commands\.ts:\d+: svc gate <value> <value>$/

async function readSources(): Promise<{ commands: readonly NamedCommand[]; faults: readonly string[] }> {
  const read = await Promise.all((await textsWithCommands()).map((naming) => commandsIn(naming, svcCommands)))
  return {
    commands: read.flatMap(({ commands }) => commands),
    faults: read.flatMap(({ faults }) => faults).filter((fault) => !TYPED_IN_CHAT.test(fault)),
  }
}

const VALUES = {
  instance: 'demo',
  folder: 'main',
  sub: 'github:1',
  jid: 'sandbox:lobby',
  pattern: 'main',
  daily: '500',
  price: 'free',
  name: 'crm',
  platforms: 'crm',
}

/** Needs a server, containers, a model, files, another machine, or rows that no value above names. */
const NOT_RUN = /^(?:serve|run|chat|send|model|backup|restore|apply|export|generate) |^login .*--url|^doctor .*--/

/** What it acts on is not there, main stays, or it prompts for a secret. */
const EXPECTED =
  /^svc: (?:there is no (?:secret|token|directory|group) |the package crm is not installed|main is the root|--value is missing|no terminal: )/

suite('every command that a text in the sources names', async () => {
  const { commands, faults } = await readSources()

  test('is one that svc has, with its arguments and flags', () => {
    assert.deepEqual([...new Set(faults)], [])
    assert.ok(commands.length > 150, 'commands are not found any more')
  })

  test('runs, if it needs nothing but an instance', async (t) => {
    const cli = await demoCli(t)
    const lines = new Map(
      commands.flatMap((command) => {
        const line = fillIn(command, VALUES)
        return line ? [[line.join(' '), line] as const] : []
      }),
    )
    const tried: string[] = []
    for (const [text, line] of lines) {
      if (NOT_RUN.test(text)) continue
      const { code, stderr } = await cli.run(line)
      assert.ok(code === 0 || EXPECTED.test(stderr), `svc ${text} exits ${code}: ${stderr}`)
      tried.push(text)
    }
    assert.ok(tried.length > 30, tried.join('\n'))
  })
})

suite('a text with a mistyped command', () => {
  const faultsIn = async (text: string, isCommand = false): Promise<number> =>
    (await commandsIn({ at: 'here:1', text, isCommand }, svcCommands)).faults.length
  const WRONG = [
    'svc grup <value> list shows them',
    'run svc group <value> lst first',
    'svc group <value> rm <value> --purg removes them',
    'svc budget <value> set folder <value>',
    'to start: svc route <value> rm, and add it again',
    "svc invite <value> creat 'team/**'",
  ]
  for (const text of WRONG) test(`is found: ${text}`, async () => assert.equal(await faultsIn(text), 1))
  test('is found among commands to copy, where nothing may follow', async () => {
    assert.equal(await faultsIn('svc group <value> list all'), 0)
    assert.equal(await faultsIn('svc group <value> list all', true), 1)
  })
  const RIGHT = ['svc runs as root', 'set it with svc model', 'svc turns <value> show <value> shows the reason']
  for (const text of RIGHT) test(`is not seen in: ${text}`, async () => assert.equal(await faultsIn(text), 0))
})
