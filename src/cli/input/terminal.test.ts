import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Terminal } from './terminal.ts'

function openTerminal(...chunks: string[]): { terminal: Terminal; steps: string[] } {
  const steps: string[] = []
  async function* input() {
    for (const chunk of chunks) yield Buffer.from(chunk)
  }
  const stream = {
    iterator: () => input(),
    setRawMode: (isRaw: boolean) => steps.push(isRaw ? '<raw>' : '<line>'),
    ref: () => steps.push('<ref>'),
    unref: () => steps.push('<unref>'),
  }
  const terminal = new Terminal(
    () => stream,
    (text) => void steps.push(text),
  )
  return { terminal, steps }
}

test('each prompt takes one line, even if several were typed at once, and only the hidden one disables echo', async () => {
  const { terminal, steps } = openTerminal('8\nhttp://x', '/v1\ns3cret\rsmall\n')
  assert.equal(await terminal.promptLine('Which'), '8')
  assert.equal(await terminal.promptLine('URL'), 'http://x/v1')
  assert.equal(await terminal.promptHidden('Key'), 's3cret')
  assert.equal(await terminal.promptLine('Model'), 'small')
  assert.deepEqual(steps, [
    ...['<ref>', 'Which: ', '<unref>', '<ref>', 'URL: ', '<unref>'],
    ...['<ref>', '<raw>', 'Key: ', '<line>', '\n', '<unref>', '<ref>', 'Model: ', '<unref>'],
  ])
})

test('returns undefined when the terminal closes', async () => {
  const { terminal } = openTerminal('half')
  assert.equal(await terminal.promptLine('Which'), undefined)
  assert.equal(await terminal.promptHidden('Key'), undefined)
})
