import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal } from '../../test/support/host.ts'
import { readSettings, sourceOf } from '../lib/settings.ts'
import { RUNTIME_SETTINGS } from './settings.ts'

const read = (key: string, value: string) => readSettings(RUNTIME_SETTINGS, [sourceOf('.env', new Map([[key, value]]))])

const PASSED_TO_RUNS = [
  'AGENT_COMMAND',
  'AGENT_CLI',
  'AGENT_MODEL',
  'ANTHROPIC_API_KEY',
  'ANTHROPIC_BASE_URL',
  'CLAUDE_CODE_OAUTH_TOKEN',
  'OPENAI_API_KEY',
  'OPENAI_BASE_URL',
  'OPENAI_MODEL',
  'SANDBOX_PATHS',
]

test('rejects control characters in settings that are passed to a run', () => {
  for (const key of PASSED_TO_RUNS)
    for (const character of ['\u0000', '\u001b', '\u0080'])
      assert.throws(
        () => read(key, `http://a.example/${character}x`),
        isRefusal('invalid', `${key} in .env must not contain control characters other than tab and newline`),
      )
})

test('accepts a command with several lines', () => {
  assert.equal(read('AGENT_COMMAND', 'a\n\tb').AGENT_COMMAND, 'a\n\tb')
})
