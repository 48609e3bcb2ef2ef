import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { readHiddenLine } from './hidden-line.ts'

const STEPS = ['raw mode', 'prompt', 'line mode']

async function readTyped(...chunks: (string | Uint8Array)[]): Promise<{ line: string | undefined; steps: string[] }> {
  const steps: string[] = []
  const keys = {
    setRawMode: (isRaw: boolean) => steps.push(isRaw ? 'raw mode' : 'line mode'),
    async *[Symbol.asyncIterator]() {
      yield* chunks
    },
  }
  return { line: await readHiddenLine(keys, () => void steps.push('prompt')), steps }
}

test('reads up to Enter and restores the terminal', async () => {
  assert.deepEqual(await readTyped('s3', 'cret\rrest'), { line: 's3cret', steps: STEPS })
})

test('backspace deletes the last character, if there is one', async () => {
  assert.equal((await readTyped('\u007fa😀\u007fb\bc\n')).line, 'ac')
})

test('returns undefined after Ctrl-C or when the terminal closes', async () => {
  assert.deepEqual(await readTyped('half\u0003\r'), { line: undefined, steps: STEPS })
  assert.deepEqual(await readTyped('half'), { line: undefined, steps: STEPS })
})

test('Ctrl-D ends the line', async () => assert.equal((await readTyped('abc\u0004')).line, 'abc'))

test('decodes characters whose bytes arrive one by one', async () => {
  const text = fc.string({ unit: 'grapheme' }).filter((line) => !/[\u0000-\u001f\u007f]/.test(line))
  await fc.assert(
    fc.asyncProperty(text, async (line) => {
      const bytes = [...Buffer.from(`${line}\r`)].map((byte) => Buffer.of(byte))
      assert.equal((await readTyped(...bytes)).line, line)
    }),
  )
})
