import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { findSection } from './script-file.ts'

test('selects the first section whose words are in the message, or else the lines before all sections', () => {
  const text = '# comment\n/say all\n\nwhen Bad Day\r\n/say oh\n/say dear\nwhen day\n/say hm\nwhen empty\n'
  const lines = (message: string): string[] | undefined => findSection(text, message)?.lines
  assert.deepEqual(lines('hello'), ['/say all'])
  assert.deepEqual(lines('what a BAD day'), ['/say oh', '/say dear'])
  assert.deepEqual(lines('good day'), ['/say hm'])
  assert.deepEqual(lines('empty'), [])
})

test('finds a section in any file', () => {
  fc.assert(fc.property(fc.string(), fc.string(), (text, message) => assert.ok(findSection(text, message))))
})
