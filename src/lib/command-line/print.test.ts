import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { cell, type PrintedTable, printer } from './print.ts'

interface Row {
  readonly name: string
  readonly size: number
}

const TABLE: PrintedTable<Row> = {
  rows: [
    { name: 'a', size: 1 },
    { name: 'longer', size: 22 },
  ],
  columns: { NAME: ({ name }) => name, SIZE: ({ size }) => size },
  empty: 'no rows',
}

function printed(
  options: { terminal?: boolean; plain?: boolean; json?: boolean },
  work: (print: ReturnType<typeof printer>) => void,
) {
  const said = { stdout: '', stderr: '' }
  const out = (name: keyof typeof said) => ({
    isTerminal: options.terminal ?? false,
    write: (text: string) => {
      said[name] += text
    },
  })
  work(
    printer({
      stdout: out('stdout'),
      stderr: out('stderr'),
      plain: options.plain ?? false,
      json: options.json ?? false,
    }),
  )
  return said
}

suite('a table', () => {
  test('has tabs in a pipe', () =>
    assert.equal(printed({}, (print) => print.table(TABLE)).stdout, 'NAME\tSIZE\na\t1\nlonger\t22\n'))
  test('is aligned on a terminal', () =>
    assert.equal(
      printed({ terminal: true }, (print) => print.table(TABLE)).stdout,
      'NAME    SIZE\na       1\nlonger  22\n',
    ))
  test('is tab-separated on a terminal where the specification says so', () =>
    assert.equal(
      printed({ terminal: true }, (print) => print.table({ ...TABLE, tabs: true, header: false })).stdout,
      'a\t1\nlonger\t22\n',
    ))
  test('is its rows as JSON', () =>
    assert.deepEqual(JSON.parse(printed({ json: true }, (print) => print.table(TABLE)).stdout), TABLE.rows))
  test('prints nothing but a message on stderr if it is empty', () =>
    assert.deepEqual(
      printed({}, (print) => print.table({ ...TABLE, rows: [] })),
      { stdout: '', stderr: 'no rows\n' },
    ))
  test('is an empty JSON list if it is empty', () =>
    assert.deepEqual(
      printed({ json: true }, (print) => print.table({ ...TABLE, rows: [] })),
      { stdout: '[]\n', stderr: '' },
    ))
})

suite('colours', () => {
  const warn = (options: Parameters<typeof printed>[0]) => printed(options, (print) => print.warn('x')).stderr
  test('are used on terminals', () => assert.equal(warn({ terminal: true }), '\u001b[33mwarning:\u001b[39m x\n'))
  test('are not used in pipes', () => assert.equal(warn({}), 'warning: x\n'))
  test('are not used if switched off', () => assert.equal(warn({ terminal: true, plain: true }), 'warning: x\n'))
})

test('escapes control characters in cells', () => {
  assert.equal(cell('a\tb\nc'), 'a\\tb\\nc')
  assert.equal(cell('\u001b[31mred\u009b2J\u202e'), '\\u001b[31mred\\u009b2J\\u202e')
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      assert.doesNotMatch(cell(text), /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/)
    }),
  )
})
