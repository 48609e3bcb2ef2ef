import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { suite, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { fakeClock } from '../../test/support/clock.ts'
import { until } from '../../test/support/until.ts'
import { throwUncaught } from '../lib/fault-boundary.ts'
import { FlowLimiter, type FlowLimits } from '../lib/flow-limiter.ts'
import { OutputReader } from './output-reader.ts'

const SLICE_LINES = 256

function open(limits: FlowLimits, hasLineCost = true) {
  const clock = fakeClock()
  const reader = new OutputReader(throwUncaught, new FlowLimiter(limits, clock))
  const stream = new PassThrough({ highWaterMark: 16_384 })
  const slices: Buffer[] = []
  reader.read(stream, { hasLineCost, onSlice: (slice) => slices.push(slice) })
  const size = (): number => slices.reduce((sum, { length }) => sum + length, 0)
  return { clock, reader, stream, slices, size }
}

const UNLIMITED: FlowLimits = { bytesPerSecond: 0, linesPerSecond: 0, burstS: 1 }

async function manyTurns(): Promise<void> {
  for (let count = 0; count < 100; count++) await nextTurn()
}

suite('the output of a run', () => {
  test('is handled at once if it is within the limits', async () => {
    const { stream, slices } = open({ bytesPerSecond: 10_000, linesPerSecond: 10, burstS: 1 })
    stream.write('one line\n')
    await until(() => slices.length === 1)
    assert.equal(String(slices[0]), 'one line\n')
  })

  test('arrives whole and in order, however it is cut', async () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 600 }),
      fc.nat(800).map((count) => Buffer.alloc(count, '\n')),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 12 }), fc.boolean(), async (pieces, hasLineCost) => {
        const { reader, stream, slices } = open(UNLIMITED, hasLineCost)
        const whole = Buffer.concat(pieces)
        for (const each of pieces) stream.write(each)
        await until(() => Buffer.concat(slices).length === whole.length)
        await reader.finish()
        assert.ok(Buffer.concat(slices).equals(whole))
        for (const slice of slices)
          if (hasLineCost) assert.ok(slice.filter((byte) => byte === 10).length <= SLICE_LINES)
      }),
      { numRuns: 60 },
    )
  })

  test(`takes one slice of at most ${SLICE_LINES} lines per turn of the event loop`, async () => {
    const { stream, slices } = open(UNLIMITED)
    stream.write(Buffer.alloc(4 * SLICE_LINES + 1, '\n'))
    await until(() => slices.length > 0)
    let before = slices.length
    while (before < 5) {
      await nextTurn()
      assert.ok(slices.length <= before + 1)
      before = slices.length
    }
    assert.deepEqual(
      slices.map(({ length }) => length),
      [SLICE_LINES, SLICE_LINES, SLICE_LINES, SLICE_LINES, 1],
    )
  })

  test('waits when the lines of a second are used up, and the writer waits with it', async () => {
    const limits = { bytesPerSecond: 0, linesPerSecond: 2 * SLICE_LINES, burstS: 1 }
    const { clock, stream, size } = open(limits)
    let written = 0
    const block = Buffer.alloc(SLICE_LINES, '\n')
    const fill = (): void => {
      while (stream.write(block)) written++
      stream.once('drain', fill)
    }
    fill()
    await until(() => size() === 2 * SLICE_LINES)
    await manyTurns()
    const stuck = written
    assert.equal(size(), 2 * SLICE_LINES)
    await manyTurns()
    assert.equal(written, stuck)
    // One line is due: the slice that it allows is paid for afterwards.
    clock.advance(1000 / (2 * SLICE_LINES))
    await until(() => size() === 3 * SLICE_LINES)
    await manyTurns()
    assert.equal(size(), 3 * SLICE_LINES)
    clock.advance(499)
    await manyTurns()
    assert.equal(size(), 3 * SLICE_LINES)
    clock.advance(2)
    await until(() => size() === 4 * SLICE_LINES)
    stream.destroy()
  })

  test('is limited by bytes alone if lines cost nothing', async () => {
    const limits = { bytesPerSecond: 10_000, linesPerSecond: 1, burstS: 1 }
    const { clock, stream, size } = open(limits, false)
    stream.write(Buffer.alloc(10_000, '\n'))
    await until(() => size() === 10_000)
    stream.write(Buffer.alloc(5000, '\n'))
    await manyTurns()
    assert.equal(size(), 10_000)
    clock.advance(1)
    await until(() => size() === 15_000)
  })

  test('of many small writes collects in the pipe while it waits', async () => {
    const clock = fakeClock()
    const reader = new OutputReader(
      throwUncaught,
      new FlowLimiter({ bytesPerSecond: 4096, linesPerSecond: 0, burstS: 1 }, clock),
    )
    const write = 'syswrite(STDOUT, "x") for 1 .. 100; syswrite(STDERR, "done"); <STDIN>'
    const child = spawn('perl', ['-e', write], { stdio: 'pipe' })
    const slices: Buffer[] = []
    reader.read(child.stdout, { hasLineCost: false, onSlice: (slice) => slices.push(slice) })
    await once(child.stderr, 'data')
    assert.equal(slices.length, 1)
    await until(() => {
      clock.advance(1000)
      return Buffer.concat(slices).length === 100
    })
    // Node has read one chunk ahead.
    assert.ok(slices.length <= 3, `${slices.length} reads`)
    child.stdin.end()
    await once(child, 'close')
  })

  test('of two streams shares the limits, and neither waits for the end of the other', async () => {
    const clock = fakeClock()
    const reader = new OutputReader(
      throwUncaught,
      new FlowLimiter({ bytesPerSecond: 0, linesPerSecond: 1000, burstS: 1 }, clock),
    )
    const [loud, quiet] = [new PassThrough(), new PassThrough()]
    const handled = { loud: 0, quiet: 0 }
    const count = (name: 'loud' | 'quiet') => (slice: Buffer) => {
      handled[name] += slice.length
    }
    reader.read(loud, { hasLineCost: true, onSlice: count('loud') })
    reader.read(quiet, { hasLineCost: true, onSlice: count('quiet') })
    loud.write(Buffer.alloc(50_000, '\n'))
    await until(() => handled.loud >= 1000)
    quiet.write('x\n')
    await manyTurns()
    assert.equal(handled.quiet, 0)
    clock.advance(1000)
    await until(() => handled.quiet === 2)
    assert.ok(handled.loud < 50_000)
    await reader.finish()
  })

  test('that was read is handled when the process has ended, whatever the limits say', async () => {
    const { reader, stream, size } = open({ bytesPerSecond: 0, linesPerSecond: SLICE_LINES, burstS: 1 })
    stream.write(Buffer.alloc(20 * SLICE_LINES, '\n'))
    await until(() => size() === SLICE_LINES)
    stream.destroy()
    await reader.finish()
    assert.equal(size(), 20 * SLICE_LINES)
  })
})

test('an exception of a handler is reported, and the end does not wait for the rest', async () => {
  const faults: unknown[] = []
  const reader = new OutputReader((error) => void faults.push(error))
  const stream = new PassThrough()
  reader.read(stream, {
    hasLineCost: true,
    onSlice: () => {
      throw new TypeError('odd output')
    },
  })
  stream.write('x\n'.repeat(10_000))
  await until(() => faults.length > 0)
  await reader.finish()
  assert.ok(faults[0] instanceof TypeError)
})
