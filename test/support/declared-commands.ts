// Checks the usage lines of a program: they are consistent, their examples work, and any input is parsed or
// refused.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { readArguments } from '../../src/lib/command-line/argv.ts'
import { loadAll, type ProgramCommands } from '../../src/lib/command-line/program.ts'
import { type CommandDescription, parseUsage } from '../../src/lib/command-line/usage.ts'

/** `reading` matches the commands that only list or show. */
export function checkDeclaredCommands(
  program: string,
  commands: ProgramCommands<CommandDescription>,
  reading: RegExp,
): void {
  suite(`every declared command of ${program}`, async () => {
    for (const [noun, load] of Object.entries(commands)) {
      const lines = await load()
      for (const command of lines) {
        test(`${program} ${command.usage}`, () => {
          assert.equal(command.usage.split(' ')[0], noun)
          // An error shows the example, so it must work.
          const argv = shellWords(command.example).slice(1)
          const reading = readArguments(lines, argv)
          assert.equal(reading.kind === 'run' && reading.command, command, command.example)
          assert.ok(command.about.length > 0 && /[^.]$/.test(command.about), 'about is a phrase without a full stop')
        })
      }
      test(`${noun}: a flag is written alike wherever it stands`, () => {
        const flags = lines.flatMap(({ usage }) => parseUsage(usage).flags)
        for (const flag of flags) {
          const same = flags.filter(({ name, short }) => name === flag.name || (short && short === flag.short))
          for (const other of same)
            assert.deepEqual([other.name, other.short, other.takesValue], [flag.name, flag.short, flag.takesValue])
        }
      })
    }

    test('what lists, shows or answers can do so with JSON', async () => {
      for (const { usage } of (await loadAll(commands)).flat())
        assert.equal(reading.test(usage), usage.includes('[--json]'), usage)
    })
  })

  suite(`whatever is typed to ${program}`, async () => {
    const all = await loadAll(commands)
    const known = [
      '--',
      '-',
      '--json',
      '--help',
      '-c',
      '--value',
      '--value=',
      '-1',
      'demo',
      'issue',
      'add',
      'set',
      'list',
    ]
    const word = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom(...known))

    test('it is read without a crash, as exactly one thing', () => {
      fc.assert(
        fc.property(fc.constantFrom(...all), fc.array(word, { maxLength: 8 }), (commands, argv) => {
          const reading = readArguments(commands, argv)
          if (reading.kind === 'run') assert.ok(commands.includes(reading.command))
          else assert.ok(reading.about.length > 0)
        }),
        { numRuns: 500 },
      )
    })

    test('what a usage line names comes back as it was typed', () => {
      fc.assert(
        fc.property(
          fc.constantFrom(...all.flat()),
          fc.infiniteStream(fc.string()),
          fc.boolean(),
          (command, texts, equals) => {
            const { argv, expected } = filledIn(command, () => String(texts.next().value), equals)
            const nouns = all.find((commands) => commands.includes(command)) ?? []
            const reading = readArguments(nouns, argv)
            assert.deepEqual(reading.kind === 'run' && reading.args, expected)
          },
        ),
        { numRuns: 500 },
      )
    })
  })
}

/** A call of a command with all its arguments, and the values that the parser must return. */
function filledIn({ usage }: CommandDescription, next: () => string, equals: boolean) {
  const shape = parseUsage(usage)
  const expected: Record<string, unknown> = {}
  const words = shape.parts.map((part) => {
    if (part.kind === 'word') return part.text
    const text = next()
    expected[part.name] = part.many ? [text] : text
    return text
  })
  const flags = shape.flags.flatMap(({ name, key, takesValue, isRepeatable }) => {
    const text = next()
    expected[key] = isRepeatable ? [text] : takesValue ? text : true
    if (!takesValue) return [`--${name}`]
    return equals ? [`--${name}=${text}`] : [`--${name}`, text]
  })
  return { argv: [...flags, '--', ...words], expected }
}

/** Splits an example like a shell: single quotes group words, and redirections are not arguments. */
function shellWords(example: string): string[] {
  const [typed = ''] = example.split(/ [<>] /)
  return [...typed.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
}
