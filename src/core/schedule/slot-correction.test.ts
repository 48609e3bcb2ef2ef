import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { timestamp } from '../../lib/clock.ts'
import { createSlotCorrection } from './slot-correction.ts'
import { scheduledTasks } from './tasks.ts'

const HOUR_MS = 3_600_000

onEveryEngine('the correction of slots', (engine) => {
  test('notices a clock that was ahead only between two corrections, while slots were computed', async (t) => {
    const { host, clock, groups } = await testHost(t, engine)
    await groups('main')
    const began = clock.now()
    const task = {
      ...{ id: 'hourly', owner: 'main', chat_jid: 'web:main', prompt: 'x', cron: String(HOUR_MS) },
      ...{ status: 'active' as const, created_at: timestamp(began), context_mode: 'group' as const },
    }
    const slots = createSlotCorrection(host)
    assert.equal(await slots.correct(), 0)
    clock.advance(1000 * HOUR_MS)
    const next_run = timestamp(slots.clock.now() + HOUR_MS)
    await host.engine.transaction((tx) => scheduledTasks.insert(tx, { ...task, next_run }))
    clock.advance(-1000 * HOUR_MS)
    assert.equal(await slots.correct(), 1)
    const corrected = await host.engine.read((tx) => scheduledTasks.find(tx, { id: 'hourly' }))
    assert.equal(corrected?.next_run, timestamp(began + HOUR_MS))
    assert.equal(await slots.correct(), 0)
  })
})
