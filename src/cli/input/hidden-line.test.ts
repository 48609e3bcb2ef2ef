import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { readHiddenLine } from './hidden-line.ts'

const MODES = ['hidden', 'asked', 'shown']

async function typed(...pieces: (string | Uint8Array)[]): Promise<{ line: string | undefined; modes: string[] }> {
  const modes: string[] = []
  const keys = {
    setRawMode: (isRaw: boolean) => modes.push(isRaw ? 'hidden' : 'shown'),
    async *[Symbol.asyncIterator]() {
      yield* pieces
    },
  }
  return { line: await readHiddenLine(keys, () => void modes.push('asked')), modes }
}

test('a line is what was typed up to Enter, and the terminal is as before', async () => {
  assert.deepEqual(await typed('s3', 'cret\rrest'), { line: 's3cret', modes: MODES })
})

test('backspace takes a character back, and nothing where there is none', async () => {
  assert.equal((await typed('\u007fa😀\u007fb\bc\n')).line, 'ac')
})

test('Ctrl-C, and a terminal that is gone, give nothing', async () => {
  assert.deepEqual(await typed('half\u0003\r'), { line: undefined, modes: MODES })
  assert.deepEqual(await typed('half'), { line: undefined, modes: MODES })
})

test('Ctrl-D ends the line', async () => assert.equal((await typed('abc\u0004')).line, 'abc'))

test('bytes that come one by one are the same text', async () => {
  const text = fc.string({ unit: 'grapheme' }).filter((line) => !/[\u0000-\u001f\u007f]/.test(line))
  await fc.assert(
    fc.asyncProperty(text, async (line) => {
      const bytes = [...Buffer.from(`${line}\r`)].map((byte) => Buffer.of(byte))
      assert.equal((await typed(...bytes)).line, line)
    }),
  )
})
