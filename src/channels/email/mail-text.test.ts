import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { htmlToText } from './html-text.ts'
import { markdownToHtml } from './markdown-html.ts'
import { stripQuotedHistory } from './quoted-history.ts'

suite('what a person wrote', () => {
  const history = ['> older', '> words']
  const cases: Readonly<Record<string, readonly [text: readonly string[], kept: string]>> = {
    'above a quote with an introduction': [
      ['Yes.', '', 'On Mon, 1 Jan 2026 at 10:00, Ada <ada@example.com> wrote:', ...history],
      'Yes.',
    ],
    'above an introduction of two lines': [
      ['Yes.', '', 'On Mon, 1 Jan 2026 at 10:00, Ada <ada@example.com>', 'wrote:', '', ...history],
      'Yes.',
    ],
    'in another language': [['Ja.', '', 'Am 01.01.26 um 10:00 schrieb Ada:', ...history], 'Ja.'],
    'above a copied mail': [['Yes.', '', '-----Original Message-----', 'From: Ada', 'older'], 'Yes.'],
    'above copied headers': [
      ['Yes.', '________________________________', 'From: Ada <a@example.com>', 'Sent: Monday', 'To: Mia', 'older'],
      'Yes.',
    ],
    'between quotes': [['> When?', 'Now.', '> Where?', 'Here.'], '> When?\nNow.\n> Where?\nHere.'],
    'above a signature': [['Yes.', '', '-- ', 'Mia', 'Shop'], 'Yes.'],
    'above a signature and a quote': [
      ['Yes.', '-- ', 'Mia', '', 'On 1 Jan 2026, a@example.com wrote:', ...history],
      'Yes.',
    ],
    'with a colon at the end': [['This is the list:', '- one'], 'This is the list:\n- one'],
    'below a quote': [[...history, 'No.'], '> older\n> words\nNo.'],
    'that is nothing but a quote': [history, '> older\n> words'],
  }
  for (const [name, [text, kept]] of Object.entries(cases))
    test(`${name} is kept alone`, () => {
      assert.equal(stripQuotedHistory(text.join('\r\n')), kept)
    })
})

suite('HTML', () => {
  test('becomes text with paragraphs, lists, quotes and links', () => {
    const html = `<html><head><title>t</title><style>p {}</style></head><body><p>Hello&nbsp;<b>Ada</b>,</p><p>see <a href="https://example.com/a?b=1&amp;c">here</a>
      or <a href="javascript:x">there</a>:<br>new&#33; &euro;5 &lt;b&gt;</p><ul><li>one<li>two</ul><!-- no --><div>On 1 Jan 2026, a@example.com wrote:</div>
      <blockquote><p>older</p><blockquote>oldest</blockquote></blockquote><pre>a\n  b</pre><table><tr><td>1<td>2</tr></table></body></html>`
    assert.equal(
      htmlToText(html),
      [
        ...[
          'Hello Ada,',
          '',
          'see here (https://example.com/a?b=1&c) or there:',
          'new! €5 <b>',
          '',
          '- one',
          '- two',
          '',
        ],
        ...['On 1 Jan 2026, a@example.com wrote:', '', '> older', '>', '> > oldest', '', 'a', '  b', '', '1 2'],
      ].join('\n'),
    )
  })

  test('that is not closed is text to its end', () => {
    for (const html of ['a <', 'a <b', '<!--', '<style>x', '< b', '&#xffffff;', '</', '<a href=', ''])
      assert.equal(typeof htmlToText(html), 'string')
    assert.equal(htmlToText('1 < 2 and <b'), '1 < 2 and <b')
  })
})

test('Markdown becomes HTML that mail programs show, and other markup stays text', () => {
  const html = markdownToHtml(
    '# Hi *Mia*\n\n- [x] done\n- `a<b`\n\n1. [see](https://example.com/?a="b)\n\n> quote\n\n| a |\n|---|\n| **b** |\n\n---\n<script>x</script>',
  )
  for (const part of [
    '<h1>Hi <em>Mia</em></h1>',
    '☑ ',
    '<code>a&lt;b</code>',
    '<ol start="1">',
    '<blockquote>',
    '<strong>b</strong>',
    '<hr>',
    '&lt;script&gt;',
  ])
    assert.ok(html.includes(part), part)
})
