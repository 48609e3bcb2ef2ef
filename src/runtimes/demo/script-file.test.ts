import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { findSection } from './script-file.ts'

test('the first part whose words are in the message fits, else what stands before all', () => {
  const text = '# comment\n/say all\n\nwhen Bad Day\r\n/say oh\n/say dear\nwhen day\n/say hm\nwhen empty\n'
  const lines = (said: string): string[] | undefined => findSection(text, said)?.lines
  assert.deepEqual(lines('hello'), ['/say all'])
  assert.deepEqual(lines('what a BAD day'), ['/say oh', '/say dear'])
  assert.deepEqual(lines('good day'), ['/say hm'])
  assert.deepEqual(lines('empty'), [])
})

test('whatever the file holds, there is a part', () => {
  fc.assert(fc.property(fc.string(), fc.string(), (text, said) => assert.ok(findSection(text, said))))
})
