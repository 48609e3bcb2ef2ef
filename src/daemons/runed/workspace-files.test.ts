import assert from 'node:assert/strict'
import { test } from 'node:test'
import { personaOf } from './workspace-files.ts'

test('a persona is the name and summary of its front matter; without a summary there is none', () => {
  assert.deepEqual(personaOf('---\nname: "Ada"\nsummary: Plain and short.\n---\nbody'), {
    name: 'Ada',
    summary: 'Plain and short.',
  })
  for (const text of ['', 'summary: body', '---\nname: Ada\n---\n', '---\nsummary:\n---\n'])
    assert.equal(personaOf(text), undefined, text)
})
