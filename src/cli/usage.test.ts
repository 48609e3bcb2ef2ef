import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { readArguments } from './argv.ts'
import { loadAll } from './command.ts'
import { commands } from './commands/index.ts'
import { type Args, shapeOf } from './usage.ts'

test('a usage line gives places and flags', () => {
  const { places, flags } = shapeOf(
    'invite <instance> create <glob> [<note>] [<more>…] --daily|-d <cents> [--max-uses <n>] [--force]',
  )
  assert.deepEqual(
    places.map((place) => (place.kind === 'word' ? place.text : [place.name, place.optional, place.many])),
    [['instance', false, false], 'create', ['glob', false, false], ['note', true, false], ['more', true, true]],
  )
  assert.deepEqual(
    flags.map(({ name, key, short, takesValue, required }) => [name, key, short, takesValue, required]),
    [
      ['daily', 'daily', 'd', true, true],
      ['max-uses', 'maxUses', undefined, true, false],
      ['force', 'force', undefined, false, false],
    ],
  )
})

test('the types of the arguments come from the line', () => {
  // Compiles only while the types are right; what is optional may be left out, what is not may not.
  const args: Args<'x <instance> add <spec> [<suffix>] [<daemon>…] --daily|-d <cents> [--max-uses|-n <n>] [--force]'> =
    {
      instance: 'demo',
      spec: 'team',
      daemon: ['webd'],
      daily: '5',
      force: false,
    }
  const maxUses: string | undefined = args.maxUses
  assert.equal(maxUses, undefined)
})

suite('every declared command', async () => {
  for (const [noun, load] of Object.entries(commands)) {
    const lines = await load()
    for (const command of lines) {
      test(`svc ${command.usage}`, () => {
        assert.equal(command.usage.split(' ')[0], noun)
        // The example is what a wrong call shows, so it must work.
        const argv = shellWords(command.example).slice(1)
        const reading = readArguments(lines, argv)
        assert.equal(reading.kind === 'run' && reading.command, command, command.example)
        assert.ok(command.about.length > 0 && /[^.]$/.test(command.about), 'about is a phrase without a full stop')
      })
    }
    test(`${noun}: a flag is written alike wherever it stands`, () => {
      const flags = lines.flatMap(({ usage }) => shapeOf(usage).flags)
      for (const flag of flags) {
        const same = flags.filter(({ name, short }) => name === flag.name || (short && short === flag.short))
        for (const other of same)
          assert.deepEqual([other.name, other.short, other.takesValue], [flag.name, flag.short, flag.takesValue])
      }
    })
  }

  test('what lists, shows or answers can do so with JSON', async () => {
    const reading = /(?: list| grants| show | resolve| rooms|^doctor|^send |^messages | say | react )/
    for (const { usage } of (await loadAll(commands)).flat())
      assert.equal(reading.test(usage), usage.includes('[--json]'), usage)
  })
})

/** As a shell would split an example: single quotes hold together, and what is redirected is no argument. */
function shellWords(example: string): string[] {
  const [typed = ''] = example.split(/ [<>] /)
  return [...typed.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
}
