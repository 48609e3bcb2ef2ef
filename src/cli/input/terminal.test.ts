import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Terminal } from './terminal.ts'

function terminal(...pieces: string[]): { terminal: Terminal; seen: string[] } {
  const seen: string[] = []
  async function* chunks() {
    for (const piece of pieces) yield Buffer.from(piece)
  }
  const input = {
    iterator: () => chunks(),
    setRawMode: (isRaw: boolean) => seen.push(isRaw ? '<hidden>' : '<shown>'),
    ref: () => seen.push('<held>'),
    unref: () => seen.push('<let go>'),
  }
  return {
    terminal: new Terminal(
      () => input,
      (text) => void seen.push(text),
    ),
    seen,
  }
}

test('each question takes one line, also where several were typed at once, and only the hidden one hides', async () => {
  const { terminal: at, seen } = terminal('8\nhttp://x', '/v1\ns3cret\rsmall\n')
  assert.equal(await at.promptLine('Which'), '8')
  assert.equal(await at.promptLine('URL'), 'http://x/v1')
  assert.equal(await at.promptHidden('Key'), 's3cret')
  assert.equal(await at.promptLine('Model'), 'small')
  assert.deepEqual(seen, [
    ...['<held>', 'Which: ', '<let go>', '<held>', 'URL: ', '<let go>'],
    ...['<held>', '<hidden>', 'Key: ', '<shown>', '\n', '<let go>', '<held>', 'Model: ', '<let go>'],
  ])
})

test('a terminal that went away gives nothing', async () => {
  const { terminal: at } = terminal('half')
  assert.equal(await at.promptLine('Which'), undefined)
  assert.equal(await at.promptHidden('Key'), undefined)
})
