import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '../refusal.ts'
import { editDotenv, formatDotenv, parseDotenv } from './dotenv.ts'

test('reads every allowed kind of line', () => {
  const text = [
    '\uFEFF# written by create',
    '',
    '   # indented comment',
    'PLAIN=value',
    'export EXPORTED=yes',
    '  SPACED =  a b  ',
    'EMPTY=',
    'COMMENTED=one two # three',
    'ONLY_COMMENT= # nothing',
    'HASH=pass#word',
    'EQUALS=a=b=c',
    "SINGLE='a\\nb # c'",
    'DOUBLE="a\\nb \\"c\\" \\\\ \\d # e" # out',
    'WINDOWS=line\r',
    "INNER=it's",
    'TWICE=first',
    'TWICE=last',
  ].join('\n')
  assert.deepEqual(Object.fromEntries(parseDotenv(text, '.env')), {
    PLAIN: 'value',
    EXPORTED: 'yes',
    SPACED: 'a b',
    EMPTY: '',
    COMMENTED: 'one two',
    ONLY_COMMENT: '',
    HASH: 'pass#word',
    EQUALS: 'a=b=c',
    SINGLE: 'a\\nb # c',
    DOUBLE: 'a\nb "c" \\ \\d # e',
    WINDOWS: 'line',
    INNER: "it's",
    TWICE: 'last',
  })
})

test('refuses a bad line by file and number without repeating it', () => {
  const cases: Record<string, RegExp> = {
    'no equals sign hunter2': /^\.env line 2 must look like KEY=value$/,
    '=hunter2': /^\.env line 2 must look like KEY=value$/,
    '1KEY=hunter2': /^\.env line 2 must look like KEY=value$/,
    'A-B=hunter2': /^\.env line 2 must look like KEY=value$/,
    'A="hunter2': /^\.env line 2 has no closing "$/,
    'A="hunter2\\"': /^\.env line 2 has no closing "$/,
    "A='hunter2": /^\.env line 2 has no closing '$/,
    'A="hunter2" more': /^\.env line 2 has text after its closing "$/,
    'A="hun"ter2"': /^\.env line 2 has text after its closing "$/,
  }
  for (const [line, sentence] of Object.entries(cases)) {
    assert.throws(
      () => parseDotenv(`GOOD=1\n${line}\n`, '.env'),
      (error) => error instanceof Refusal && sentence.test(error.message) && !error.message.includes('hunter2'),
      line,
    )
  }
})

test('reads back what it writes', () => {
  const key = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,20}$/)
  const text = fc.oneof(fc.string({ unit: 'binary' }), fc.stringMatching(/^[ "'\\#\r\nnrt=$ab\t]{0,20}$/))
  fc.assert(
    fc.property(fc.array(fc.tuple(key, text)), (pairs) => {
      const entries = new Map(pairs)
      assert.deepEqual(parseDotenv(formatDotenv(entries), 'x'), entries)
    }),
  )
})

test('reads or refuses any text without other errors', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[A=" '\\#\n]{0,30}$/)), (text) => {
      try {
        parseDotenv(text, 'x')
      } catch (error) {
        assert.ok(error instanceof Refusal)
      }
    }),
  )
})

test('does not write a key that shells cannot name', () => {
  for (const key of ['', '1A', 'A B', 'A=B', 'A\nB', 'É']) assert.throws(() => formatDotenv([[key, 'x']]), Refusal)
})

test('rejects a pathological line of 64 KiB at once', () => {
  const started = process.cpuUsage()
  const spaces = ' '.repeat(65_536)
  const lines = [
    `A=x${spaces}y`,
    `A${spaces}`,
    `export${spaces}`,
    `A="x"${spaces}y`,
    `A="${'\\'.repeat(65_536)}`,
    spaces,
  ]
  for (const line of lines) {
    try {
      parseDotenv(line, 'x')
    } catch (error) {
      assert.ok(error instanceof Refusal)
    }
  }
  // CPU time, so that other processes do not count.
  assert.ok(process.cpuUsage(started).user < 1_000_000)
})

suite('editing a .env', () => {
  const edited = (text: string, changes: Record<string, string | undefined>): string =>
    editDotenv(text, new Map(Object.entries(changes)))

  test('replaces a line in place and appends a new key; comments stay', () => {
    assert.equal(
      edited('# model\nA=1\n\n#A=0\n export B = "x" # why\nC=3', { A: '2', B: 'y z', D: '4' }),
      "# model\nA=2\n\n#A=0\nB='y z'\nC=3\nD=4\n",
    )
  })
  test('removes a key, also a duplicate one', () => {
    assert.equal(edited('A=1\nB=2\nA=3\n', { A: undefined, C: undefined }), 'B=2\n')
    assert.equal(edited('A=1\nB=2\nA=3\n', { A: '4' }), 'A=4\nB=2\n')
  })
  test('writes only new keys to an empty file', () => assert.equal(edited('', { A: '1', B: undefined }), 'A=1\n'))
  test('reads back as the entries with the changes', () => {
    const key = fc.constantFrom('A', 'B', 'C', 'D')
    const value = fc.string({ unit: 'grapheme' }).filter((text) => !/[\u0000-\u0008\u000b-\u001f\ufeff]/.test(text))
    fc.assert(
      fc.property(
        fc.array(fc.tuple(key, value)),
        fc.dictionary(key, fc.option(value, { nil: undefined })),
        (lines, changes) => {
          const text = formatDotenv(lines)
          const expected = parseDotenv(text, 'it')
          for (const [name, changed] of Object.entries(changes)) {
            if (changed === undefined) expected.delete(name)
            else expected.set(name, changed)
          }
          assert.deepEqual([...parseDotenv(edited(text, changes), 'it')].sort(), [...expected].sort())
        },
      ),
    )
  })
})
