// Rotates the log of a running svc with the configuration of docs/server.md. Only the path of the log is replaced.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { needs } from '../support/needs.ts'
import { instance } from '../support/svc.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/server.md'), 'utf8')

test(
  'logrotate moves the log aside, and svc goes on at the start of the file',
  needs('logrotate', 'root'),
  async (t) => {
    const folder = tempDir(t)
    // logrotate refuses a directory that others can write, and configurations of other users.
    const log = join(folder, 'svc-demo.log')
    const block = /^```logrotate\n(.*?)^```$/ms.exec(GUIDE)?.[1] ?? assert.fail('no configuration found')
    const config = join(folder, 'logrotate.conf')
    writeFileSync(config, block.replace('/var/log/svc-*.log', `${folder}/svc-*.log`), { mode: 0o644 })
    const demo = await instance(t)
    const descriptor = openSync(log, 'a')
    const served = await demo.serve([], {}, descriptor)
    closeSync(descriptor)
    const lines = (path: string): string[] => readFileSync(path, 'utf8').split('\n').filter(Boolean)
    const ask = async (): Promise<void> => {
      const before = lines(log).length
      await fetch(`${served.urls.get('proxyd')}/v1/groups`)
      await until(() => lines(log).length > before)
    }
    const rotate = (): string =>
      execFileSync('/usr/sbin/logrotate', ['--force', '--state', join(folder, 'state'), config], { encoding: 'utf8' })

    await ask()
    rotate()
    await ask()
    assert.ok(lines(`${log}.1`).some((line) => line.includes('/v1/groups')))
    // The first byte after the rotation is that of a line, without a gap of zeros.
    for (const line of lines(log)) assert.equal(typeof JSON.parse(line).time, 'string')
    rotate()
    assert.match(execFileSync('gzip', ['-dc', `${log}.2.gz`], { encoding: 'utf8' }), /"daemon":/)
    assert.equal((await served.stop()).code, 0)
  },
)
