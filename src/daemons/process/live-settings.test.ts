import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { until } from '../../../test/support/until.ts'
import { readSettings, type SettingSource, sourceOf } from '../../lib/settings.ts'
import { settingsResource } from '../../resources/settings.ts'
import { LINK_SETTINGS } from '../settings.ts'
import { LiveSettings } from './live-settings.ts'

const { save } = settingsResource.verbs

onEveryEngine('settings of a running process', (engine) => {
  test('follow the store and .env; after a mistake in .env the last valid ones stay', async (t) => {
    const on = await testHost(t, engine)
    const warnings: string[] = []
    const log = { warn: (message: string) => void warnings.push(message) }
    const written = (entries: Record<string, string>): readonly SettingSource[] => [
      sourceOf('.env', new Map(Object.entries(entries))),
    ]
    let files = written({ WEBHOOK_RATE_WEB: '7', MAX_CONCURRENT_TURNS: '3' })
    // Only part of the log interface is used.
    const live = await LiveSettings.open({ host: on.host, log: log as never, files: async () => files })
    t.after(() => live.close())
    const first = await live.sources()
    const values = readSettings(LINK_SETTINGS, first)
    live.followValues(LINK_SETTINGS, values)
    assert.equal(await live.sources(), first, 'the same list until something changes')
    const set = (key: string, value?: string) =>
      on.cli.call(save, { changes: [{ key, ...(value === undefined ? {} : { value }) }] })
    await set('WEBHOOK_RATE_WEB', '9')
    // Without a call: the process looks by itself.
    await until(() => values.WEBHOOK_RATE_WEB === 9)
    await set('MAX_CONCURRENT_TURNS', '12')
    await set('TASKS_PER_FOLDER', '5')
    await live.sources()
    assert.deepEqual([on.host.rules.turnsMax, on.host.limits.tasksPerFolder], [12, 5])
    files = written({ TOKEN_BODY_MAX: 'much' })
    await live.sources()
    assert.match(
      warnings.join('\n'),
      /^invalid settings, the previous ones stay in use: TOKEN_BODY_MAX in \.env must be/,
    )
    assert.deepEqual([values.WEBHOOK_RATE_WEB, values.TOKEN_BODY_MAX], [9, 1_048_576])
    files = written({ WEBHOOK_RATE_WEB: '7' })
    await set('WEBHOOK_RATE_WEB')
    await live.sources()
    assert.equal(values.WEBHOOK_RATE_WEB, 7)
  })
})
