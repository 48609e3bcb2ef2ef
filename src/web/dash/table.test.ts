import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { html } from '../html.ts'
import { timeOf } from './parts.ts'
import { countColumn, csvRows, type DataTable, plainRows, renderTable } from './table.ts'

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
