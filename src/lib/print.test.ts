import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { cell, printer, type Table } from './print.ts'

interface Row {
  readonly name: string
  readonly size: number
}

const TABLE: Table<Row> = {
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
  test('keeps its tabs where the specification says so', () =>
    assert.equal(
      printed({ terminal: true }, (print) => print.table({ ...TABLE, tabs: true, header: false })).stdout,
      'a\t1\nlonger\t22\n',
    ))
  test('is its rows as JSON', () =>
    assert.deepEqual(JSON.parse(printed({ json: true }, (print) => print.table(TABLE)).stdout), TABLE.rows))
  test('that is empty says so to whoever watches, and prints nothing', () =>
    assert.deepEqual(
      printed({}, (print) => print.table({ ...TABLE, rows: [] })),
      { stdout: '', stderr: 'no rows\n' },
    ))
  test('that is empty is an empty list as JSON', () =>
    assert.deepEqual(
      printed({ json: true }, (print) => print.table({ ...TABLE, rows: [] })),
      { stdout: '[]\n', stderr: '' },
    ))
})

suite('colours', () => {
  const warn = (options: Parameters<typeof printed>[0]) => printed(options, (print) => print.warn('x')).stderr
  test('are for terminals', () => assert.equal(warn({ terminal: true }), '\u001b[33mwarning:\u001b[39m x\n'))
  test('and for nothing else', () => assert.equal(warn({}), 'warning: x\n'))
  test('and not where nobody wants them', () => assert.equal(warn({ terminal: true, plain: true }), 'warning: x\n'))
})

test('a cell stays one cell whatever was stored, and cannot repaint the terminal', () => {
  assert.equal(cell('a\tb\nc'), 'a\\tb\\nc')
  assert.equal(cell('\u001b[31mred\u009b2J\u202e'), '\\u001b[31mred\\u009b2J\\u202e')
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      assert.doesNotMatch(cell(text), /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/)
    }),
  )
})
