import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { tempDir } from '../../test/support/temp.ts'
import { layout } from '../core/layout.ts'
import { startCommand } from './start-command.ts'

test('an instance with a compose file is started as containers, with its unit by systemd, otherwise by svc serve', async (t) => {
  const [units, at] = [tempDir(t), layout('/somewhere/svc_demo')]
  const start = (of = at): Promise<string> => startCommand({ name: 'demo', layout: of }, [units])
  assert.equal(await start(), 'svc serve demo')
  writeFileSync(`${units}/svc-demo.service`, 'Environment="SVC_DATA_DIR=/somewhere/else"\n')
  assert.equal(await start(), 'svc serve demo', 'the unit of another instance')
  writeFileSync(`${units}/svc-demo.service`, 'Environment="SVC_DATA_DIR=/somewhere"\n')
  assert.equal(await start(), 'sudo systemctl start svc-demo.service')
  const generated = layout(tempDir(t))
  writeFileSync(generated.compose, '')
  assert.equal(await start(generated), 'svc run demo')
})
