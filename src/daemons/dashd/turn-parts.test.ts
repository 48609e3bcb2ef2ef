import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { html } from '../../web/html.ts'
import { durationText, excerpt, stopButton, turnStateText } from './turn-parts.ts'

suite('parts of turns', () => {
  test('cut a text only if it is longer than what is shown, between characters', () => {
    assert.equal(excerpt('x'.repeat(100)), 'x'.repeat(100))
    assert.equal(excerpt('x'.repeat(101)), `${'x'.repeat(100)}…`)
    assert.equal(excerpt(`a${' '.repeat(200)}\nb`), 'a b')
    assert.equal(excerpt(`a${' '.repeat(998)}b`), 'a b')
    assert.equal(excerpt(`a${' '.repeat(999)}b`), 'a…')
    assert.equal(excerpt('👍👍👍', 2), '👍👍…')
    assert.equal(excerpt('a\u202eb'), 'a\\u202eb')
  })

  test('show durations in milliseconds, seconds or minutes', () => {
    const shown = [0, 999.4, 1000, 59_940, 60_000, 90_000].map(durationText)
    assert.deepEqual(shown, ['0 ms', '999 ms', '1.0 s', '59.9 s', '1.0 min', '1.5 min'])
  })

  test('offer to stop a turn that runs or waits for its next try, once', () => {
    const view = { button: () => html`stop` }
    const offered = (state: 'running' | 'retrying' | 'done', is_stopping: boolean): string =>
      stopButton(view, { id: 't', state, is_stopping }).toString()
    assert.equal(offered('running', false) + offered('retrying', false), 'stopstop')
    assert.equal(offered('running', true) + offered('retrying', true) + offered('done', false), '')
  })

  test('show the outcome of a turn or, before it, its state', () => {
    const running = { state: 'running', outcome: undefined, is_stopping: false } as const
    assert.equal(turnStateText(running), 'running')
    assert.equal(turnStateText({ ...running, is_stopping: true }), 'stopping')
    assert.equal(turnStateText({ ...running, outcome: 'failed', is_stopping: true }), 'failed')
  })
})
