// The fixed phrases that the server sends to a chat, each of which has a translation.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FAILURE_MESSAGES } from '../src/core/turns/turn-failures.ts'
import { DEFAULT_PHRASE } from '../src/daemons/runed/activity-writer.ts'
import { NO_LINK } from '../src/daemons/webd/link-visitor.ts'
import { REFUSALS } from '../src/lib/refusal.ts'
import { CLIENT_PHRASES } from '../src/runtimes/claude/client-tools.ts'
import { PHRASES, PROBLEMS } from '../src/web/texts/en.ts'
import { PRODUCT_TOOLS } from './support/tools.ts'

const CALL_STATES = ['running', 'ok', 'failed']

const sorted = (phrases: Iterable<string>): string[] => [...new Set(phrases)].sort()

test('the languages of the chat know the phrase of each tool and the public reason of each failure, and no others', () => {
  const declared = [...PRODUCT_TOOLS.tools.values()].flatMap(({ activity }) => activity ?? [])
  const ofTools = [...declared, ...CLIENT_PHRASES, DEFAULT_PHRASE, ...CALL_STATES]
  assert.deepEqual(sorted(PHRASES), sorted([...ofTools, ...Object.values(FAILURE_MESSAGES)]))
  assert.equal(new Set(PHRASES).size, PHRASES.length)
})

test('the languages of the chat know the page of a link that is gone and the title of each refusal, and no others', () => {
  const titles = Object.values(REFUSALS).map(({ title }) => title)
  assert.deepEqual(sorted(PROBLEMS), sorted([NO_LINK.title, NO_LINK.message, NO_LINK.hint ?? '', ...titles]))
})
