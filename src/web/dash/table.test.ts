import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { html } from '../html.ts'
import { timeOf } from './parts.ts'
import {
  countColumn,
  csvHead,
  csvRows,
  type DataTable,
  moneyColumn,
  plainRows,
  renderTable,
  renderTableLinks,
} from './table.ts'

interface Row {
  readonly name: string
  readonly count?: number
}

function tableOf(rows: readonly Row[]): DataTable<Row> {
  return {
    id: 'rows',
    caption: 'Rows',
    rows,
    rowId: ({ name }) => name,
    columns: [
      {
        label: 'Name',
        cell: ({ name }) => html`<a href="/a-long-address-of-a-page">${name}</a>`,
        value: ({ name }) => name,
      },
      { label: 'Text', isProse: true, cell: ({ name }) => name },
      countColumn('Count', ({ count }) => count),
    ],
    empty: { text: 'None.' },
  }
}

suite('tables', () => {
  test('break a word only if it is very long, so that names stay readable', () => {
    const short = renderTable(tableOf([{ name: 'support/returns' }])).toString()
    assert.match(short, /<td data-label="Name"><a/)
    assert.match(short, /<td data-label="Text" class="prose">/)
    const long = renderTable(tableOf([{ name: 'x'.repeat(27) }])).toString()
    assert.match(long, /<td data-label="Name" class="long">/)
    const sentence = renderTable(tableOf([{ name: 'a sentence of several short words' }])).toString()
    assert.match(sentence, /<td data-label="Name"><a/)
  })

  test('export a cell without a value of its own as text, with exact times', () => {
    const at = '2026-01-31T09:00:00.000Z'
    const table = tableOf([{ name: '<b> & "c"' }])
    const columns = [
      {
        label: 'State',
        cell: ({ name }: Row) => html`<span class="badge">late</span> ${timeOf(at, Date.parse(at))}<br>${name}`,
      },
      { label: 'None', cell: () => html`<span></span>` },
    ]
    assert.deepEqual(plainRows({ ...table, columns }), [{ state: `late ${at} <b> & "c"`, none: undefined }])
  })

  test('link to the next page with any filter, and to none after the last one', () => {
    const downloads = { csv: '/dash/messages?format=csv', json: '/dash/messages?format=json' }
    const next = `/dash/messages?q=${'%C3%A9'.repeat(2000)}&after=x`
    const escaped = next.replace('&', '&amp;')
    assert.ok(
      renderTableLinks({ ...downloads, next })
        .toString()
        .includes(`<p class="more"><a href="${escaped}" rel="next">`),
    )
    assert.doesNotMatch(renderTableLinks(downloads).toString(), /class="more"/)
  })

  test('escape texts and attributes, and show invisible characters', () => {
    const shown = renderTable(tableOf([{ name: '"><img>\u202e' }])).toString()
    assert.match(shown, /<tr id="rows-%22%3E%3Cimg%3E%E2%80%AE">/)
    assert.match(shown, /class="prose">&quot;&gt;&lt;img&gt;\\u202e<\/td>/)
    assert.doesNotMatch(shown, /<img/)
  })

  test('are CSV that a spreadsheet reads as text and not as formulas', () => {
    const table = tableOf([])
    assert.equal(csvHead(table), 'name,text,count\r\n')
    const lines = (names: string[]): string[] =>
      csvRows({ ...table, columns: table.columns.slice(0, 1), rows: names.map((name) => ({ name })) })
        .split(/(?<=\r\n)/)
        .filter((line) => line !== '')
    assert.deepEqual(lines(['a=1', 'a b', '=1', '+1', '-1', '@a', '\ta']), [
      ...['a=1\r\n', 'a b\r\n'],
      ...["'=1\r\n", "'+1\r\n", "'-1\r\n", "'@a\r\n", "'\ta\r\n"],
    ])
    assert.equal(lines(['a,b', 'a"b']).join(''), '"a,b"\r\n"a""b"\r\n')
    assert.equal(lines(['\r=1', '\n=1', 'a\nb', 'a\rb']).join('|'), `"'\r=1"\r\n|"'\n=1"\r\n|"a\nb"\r\n|"a\rb"\r\n`)
  })

  test('show cents as dollars, and export the same number', () => {
    const table = {
      ...tableOf([{ name: 'a', count: 1250 }, { name: 'b' }]),
      columns: [moneyColumn<Row>('Cost', ({ count }) => count)],
    }
    assert.match(renderTable(table).toString(), /<td data-label="Cost" class="number">\$12\.50<\/td>/)
    assert.match(renderTable(table).toString(), /<td data-label="Cost" class="number"><\/td>/)
    assert.equal(csvRows(table), '12.5\r\n\r\n')
  })

  test('group the digits of counts on the page, and not in CSV and JSON', () => {
    const table = tableOf([{ name: 'a', count: 1_234_567 }, { name: 'b' }])
    assert.match(renderTable(table).toString(), /<td data-label="Count" class="number">1,234,567<\/td>/)
    assert.equal(csvRows(table), 'a,a,1234567\r\nb,b,\r\n')
    assert.deepEqual(
      plainRows(table).map(({ count }) => count),
      [1_234_567, undefined],
    )
  })
})
