import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { html } from '../html.ts'
import { renderChart } from './chart.ts'
import { renderDetails } from './detail-pane.ts'
import { money, notice, renderMeter, textBlock, timeOf, visibleText } from './parts.ts'

const NOW = Date.parse('2026-01-10T00:00:00Z')
const ago = (ms: number): string =>
  timeOf(new Date(NOW - ms).toISOString(), NOW)
    .toString()
    .replace(/<[^>]*>/g, '')

suite('parts of pages', () => {
  test('show times in the largest whole unit, before and after now', () => {
    const times = [0, 59_999, 60_000, 3_599_999, 3_600_000, 86_399_999, 86_400_000, 3 * 86_400_000].map(ago)
    assert.deepEqual(times, ['now', 'now', '1m', '59m', '1h', '23h', '1d', '3d'])
    assert.deepEqual([-59_999, -60_000, -7_200_000].map(ago), ['now', 'in 1m', 'in 2h'])
    assert.match(timeOf(undefined, NOW).toString(), />never</)
    const at = '2026-01-09T22:00:00.000Z'
    assert.equal(timeOf(at, NOW).toString(), `<time datetime="${at}" title="${at}">2h</time>`)
  })

  test('show cents as dollars', () => {
    assert.deepEqual([0, 1, 125, 100_000].map(money), ['$0.00', '$0.01', '$1.25', '$1000.00'])
  })

  test('show characters that are invisible or change the direction of a text, but not line breaks and tabs', () => {
    assert.equal(visibleText('a\tb\nc'), 'a\tb\nc')
    for (const hidden of [
      '\u0000',
      '\u0008',
      '\u000b',
      '\r',
      '\u001f',
      '\u007f',
      '\u009f',
      '\u200b',
      '\u202a',
      '\u202e',
    ])
      assert.match(visibleText(hidden), /^\\u[0-9a-f]{4}$/)
    for (const hidden of ['\u00ad', '\u061c', '\u180e', '\u200f', '\u2060', '\u2066', '\u2069', '\ufeff'])
      assert.match(visibleText(hidden), /^\\u/)
    for (const shown of [' ', '~', '\u00a0', '\u200a', '\u2010', '\u2029', '\u202f', '\u205f', '\u206a'])
      assert.equal(visibleText(shown), shown)
    assert.equal(visibleText(visibleText('\u202e')), '\\u202e')
  })

  test('fold a text of more than twelve lines or 1200 characters behind its beginning', () => {
    const block = (text: string): string => textBlock('t', text).toString()
    assert.match(block('a\n'.repeat(11)), /^<pre class="text" dir="auto">/)
    assert.match(block('a\n'.repeat(12)), /^<details id="t"/)
    assert.match(block('a'.repeat(1200)), /^<pre/)
    const long = block('a'.repeat(1201))
    assert.match(long, /^<details id="t"/)
    assert.match(long, new RegExp(`dir="auto">${'a'.repeat(300)}…<`))
    assert.match(block('1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13'), /dir="auto">1\n2\n3…</)
  })

  test('leave out details without a value, and show invisible characters in the others', () => {
    const shown = renderDetails({ A: undefined, B: '', C: 0, D: 'x\u202e<', E: html`<b>` }).toString()
    assert.equal(
      shown,
      '<dl class="details"><div><dt>C</dt><dd>0</dd></div><div><dt>D</dt><dd>x\\u202e&lt;</dd></div><div><dt>E</dt><dd><b></dd></div></dl>',
    )
  })

  test('announce faults at once, and other notices when there is time', () => {
    assert.match(notice('fault', 'a').toString(), /class="notice fault" role="alert"/)
    assert.match(notice('ok', 'a').toString(), /class="notice ok" role="status"/)
    assert.match(notice('warn', '<').toString(), /role="status">&lt;</)
  })

  test('draw a meter that ends at its limit', () => {
    assert.match(renderMeter('Share', 50, 100).toString(), /max="100" high="80" optimum="0" value="50"/)
    assert.match(renderMeter('Share', 101, 100).toString(), /value="100"/)
  })

  test('draw bars in proportion to the largest value or the limit, and a small one so that it is seen', () => {
    const points = [0, 1, 1000].map((value, at) => ({ label: `<${at}`, value }))
    const chart = (limit?: number): string => renderChart({ id: 'c', title: 'Costs', points, limit }).toString()
    const heights = (text: string): string[] =>
      [...text.matchAll(/ height="([\d.]+)"/g)].map(([, height = '']) => height)
    assert.deepEqual(heights(chart()), ['0', '1', '48'])
    assert.deepEqual(heights(chart(2000)), ['0', '1', '24'])
    assert.match(chart(2000), /<line x1="0" x2="240" y1="0" y2="0">/)
    assert.match(chart(500), /y1="24" y2="24"/)
    assert.doesNotMatch(chart(), /<line|class="axis"/)
    assert.match(chart(), /<li>&lt;2: 1000<\/li>/)
    const wide = renderChart({ id: 'c', title: 'Costs', points, format: money, isWide: true }).toString()
    assert.match(wide, /<span>&lt;0<\/span><span>largest: \$10\.00<\/span><span>&lt;2<\/span>/)
    assert.match(renderChart({ id: 'c', title: 'None', points: [] }).toString(), /<ul class="unseen"><\/ul>/)
  })
})
