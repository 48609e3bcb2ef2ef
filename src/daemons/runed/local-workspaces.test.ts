import assert from 'node:assert/strict'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { layout } from '../../core/layout.ts'
import { openLog } from '../../lib/log/log.ts'
import { LocalWorkspaces } from './local-workspaces.ts'

test('a missing workspace is logged once, and found when it appears', async (t) => {
  const places = layout(tempDir(t))
  const logged: string[] = []
  const log = await openLog({ to: { write: (line) => logged.push(line) } })
  const workspaces = new LocalWorkspaces(places, log)
  mkdirSync(join(places.groups, 'here'), { recursive: true })
  writeFileSync(join(places.groups, 'file'), '')
  const has = (): boolean[] => ['here', 'team/sub', 'file'].map((folder) => workspaces.has(folder))
  for (let time = 0; time < 3; time++) assert.deepEqual(has(), [true, false, false])
  assert.deepEqual(workspaces.missing(), ['team/sub', 'file'])
  const told = () => logged.map((line) => JSON.parse(line)).map(({ folder, msg }) => `${folder}: ${msg}`)
  const waits = 'workspace is not in this data directory, its messages wait'
  assert.deepEqual(told(), [`team/sub: ${waits}`, `file: ${waits}`])
  mkdirSync(join(places.groups, 'team/sub'), { recursive: true })
  await until(() => workspaces.missing().length === 1)
  assert.equal(told()[2], 'team/sub: workspace found, its messages are answered now')
  rmSync(join(places.groups, 'team/sub'), { recursive: true })
  assert.ok(!workspaces.has('team/sub'))
  assert.equal(told()[3], `team/sub: ${waits}`)
})
