import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { splitText } from '../process/text-splitter.ts'
import { toDiscordMarkdown } from './outgoing-markdown.ts'

const CASES: Record<string, readonly [text: string, shown: string]> = {
  'a table': ['a|b\n-|-\nlong|2\nafter', '```\na     b\n----  -\nlong  2\n```\nafter'],
  'a table with outer bars': ['| a |\n|---|\n| 1 |', '```\na\n-\n1\n```'],
  'a row without a rule': ['a | b\nc | d', 'a | b\nc | d'],
  'a rule with other columns': ['a | b\n---\nc', 'a | b\n---\nc'],
  'a table in code': ['```\na|b\n-|-\n```', '```\na|b\n-|-\n```'],
  'a code block in code of more marks': ['````\n```\n#### x\n````\n#### y', '````\n```\n#### x\n````\n**y**'],
  'headings that Discord has': ['# one\n### three', '# one\n### three'],
  'an image without a name': ['![](https://example.com/a.png)', '[image](https://example.com/a.png)'],
}

for (const [name, [text, shown]] of Object.entries(CASES))
  test(`${name} is shown as Discord can`, () => assert.equal(toDiscordMarkdown(text), shown))

test('a table of many rows is shown', () => {
  assert.ok(toDiscordMarkdown(`a|b\n-|-\n${'c|d\n'.repeat(200_000)}`).length > 200_000)
})

test('no part of a split text is longer than the limit when it is shown', () => {
  const line = fc.constantFrom(
    '| a | b |',
    '|---|---|',
    '| one | two and more |',
    'words of a text',
    '',
    '```',
    '#### x',
  )
  fc.assert(
    fc.property(fc.array(line, { maxLength: 80 }), (lines) => {
      const parts = splitText(lines.join('\n'), 300, (text) => toDiscordMarkdown(text).length)
      for (const part of parts) assert.ok(toDiscordMarkdown(part).length <= 300, part)
    }),
    { numRuns: runs(200, 3000) },
  )
})
