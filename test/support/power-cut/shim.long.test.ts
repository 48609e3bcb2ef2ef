import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { suite, type TestContext, test } from 'node:test'
import { needs } from '../needs.ts'
import { type RepeatableRandom, repeatableRandom } from '../repeatable-random.ts'
import { tempDir } from '../temp.ts'
import { buildShim, type DiskFaults, UNSYNCED, type Unsynced, watchDisk } from './shim.ts'

const ROUNDS = 6

/** Inserts rows, each in its own commit, and prints the number of a row after its commit. */
const WRITER = `
const { writeSync } = require('node:fs')
const { DatabaseSync } = require('node:sqlite')
const [path, synchronous] = process.argv.slice(1)
const db = new DatabaseSync(path)
db.exec('pragma journal_mode = wal; pragma wal_autocheckpoint = 100; pragma synchronous = ' + synchronous)
const insert = db.prepare('insert into rows (id, body) values (?, ?)')
for (let id = 1; ; id++) {
  insert.run(id, 'x'.repeat(id % 3000))
  writeSync(1, id + '\\n')
}
`

interface Outcome {
  readonly acknowledged: number
  readonly lost: number
}

interface Trial {
  readonly synchronous: 'full' | 'normal'
  readonly unsynced: Unsynced
  readonly weakness?: DiskFaults
}

async function loseThePower(t: TestContext, shim: string, by: RepeatableRandom, trial: Trial): Promise<Outcome> {
  const folder = tempDir(t)
  const path = join(folder, 'test.db')
  const db = new DatabaseSync(path)
  db.exec('pragma journal_mode = wal; create table rows (id integer primary key, body text)')
  db.close()
  const disk = watchDisk(t, shim, folder, trial.weakness)
  const child = spawn(process.execPath, ['--eval', WRITER, path, trial.synchronous], {
    env: { ...process.env, ...disk.env },
    // Node prints the error that ends the writer when its disk fails.
    stdio: ['ignore', 'pipe', trial.weakness?.fail ? 'ignore' : 'inherit'],
  })
  const enough = by.between(50, 600)
  let acknowledged = 0
  for await (const line of createInterface({ input: child.stdout })) {
    acknowledged = Number(line)
    if (acknowledged === enough) child.kill('SIGKILL')
  }
  return { acknowledged, lost: acknowledged - rowsIn(disk.cut(trial.unsynced, by), acknowledged) }
}

/** Counts the rows and checks the integrity of the file. */
function rowsIn(folder: string, upTo: number): number {
  const db = new DatabaseSync(join(folder, 'test.db'))
  try {
    assert.equal(Object.values(db.prepare('pragma integrity_check').get() ?? {})[0], 'ok')
    const row = db.prepare('select count(*) as n from rows where id <= ?').get(upTo)
    return Number(row?.n)
  } finally {
    db.close()
  }
}

suite('the shim that cuts the power', needs('compiler'), () => {
  test('a commit with synchronous=FULL survives, whatever the disk kept besides', async (t) => {
    const [shim, by] = [buildShim(t), repeatableRandom(t)]
    for (let round = 0; round < ROUNDS; round++) {
      const unsynced = UNSYNCED[round % UNSYNCED.length] ?? 'none'
      const { acknowledged, lost } = await loseThePower(t, shim, by, { synchronous: 'full', unsynced })
      assert.equal(lost, 0, `${lost} of ${acknowledged} lost with ${unsynced} kept`)
    }
  })

  for (const [what, trial] of Object.entries<Trial>({
    'with synchronous=NORMAL': { synchronous: 'normal', unsynced: 'none' },
    'with syncs of the log left out': { synchronous: 'full', unsynced: 'none', weakness: { lazy: '-wal' } },
  })) {
    test(`commits ${what} are lost, and the file is sound all the same`, async (t) => {
      const [shim, by] = [buildShim(t), repeatableRandom(t)]
      const outcomes: Outcome[] = []
      for (let round = 0; round < 4; round++) outcomes.push(await loseThePower(t, shim, by, trial))
      // A power cut just after a checkpoint loses none, so not in every round.
      assert.ok(
        outcomes.some(({ lost }) => lost > 0),
        JSON.stringify(outcomes),
      )
    })
  }

  test('a sync that fails is told to the program, and what it was to keep is gone', async (t) => {
    const [shim, by] = [buildShim(t), repeatableRandom(t)]
    const weakness = { fail: { ending: '-wal', at: by.between(20, 60) } }
    const { acknowledged, lost } = await loseThePower(t, shim, by, { synchronous: 'full', unsynced: 'none', weakness })
    assert.ok(acknowledged < weakness.fail.at, `${acknowledged} were acknowledged`)
    assert.equal(lost, 0)
  })

  test('a sync keeps what another process wrote, and nothing that it wrote later', async (t) => {
    const folder = tempDir(t)
    const disk = watchDisk(t, buildShim(t), folder)
    const run = async (script: string): Promise<void> => {
      const child = spawn(
        process.execPath,
        ['--eval', `const fs = require('node:fs'); ${script}`, join(folder, 'log')],
        {
          env: { ...process.env, ...disk.env },
          stdio: 'inherit',
        },
      )
      await once(child, 'exit')
    }
    const [append, sync] = [
      (text: string) => `fs.appendFileSync(process.argv[1], '${text}')`,
      `fs.fdatasyncSync(fs.openSync(process.argv[1], 'r'))`,
    ]
    await run(append('one '))
    await run(`${append('two ')}; ${sync}`)
    await run(append('three'))
    assert.equal(readFileSync(join(disk.cut('none', repeatableRandom(t)), 'log'), 'utf8'), 'one two ')
  })

  test('a file takes another name with what was synced of it, cut and written again', async (t) => {
    const folder = tempDir(t)
    writeFileSync(join(folder, 'state'), 'old state, and long')
    const disk = watchDisk(t, buildShim(t), folder)
    const script = `
      const fs = require('node:fs')
      const write = (name, text, synced) => {
        const file = fs.openSync(process.argv[1] + '/' + name, 'w')
        fs.writeSync(file, text)
        if (synced) fs.fsyncSync(file)
        fs.closeSync(file)
      }
      write('state', 'short', true)
      write('state', 'and not synced', false)
      write('new', 'new', true)
      fs.renameSync(process.argv[1] + '/new', process.argv[1] + '/renamed')
      write('careless', 'never synced', false)
      fs.renameSync(process.argv[1] + '/careless', process.argv[1] + '/empty')
      write('gone', 'x', true)
      fs.unlinkSync(process.argv[1] + '/gone')
      process.kill(process.pid, 'SIGKILL')`
    const child = spawn(process.execPath, ['--eval', script, folder], {
      env: { ...process.env, ...disk.env },
      stdio: 'inherit',
    })
    await once(child, 'exit')
    const left = disk.cut('none', repeatableRandom(t))
    const read = (name: string): string => readFileSync(join(left, name), 'utf8')
    assert.deepEqual([read('state'), read('renamed'), read('empty')], ['short', 'new', ''])
    for (const name of ['new', 'careless', 'gone']) assert.equal(existsSync(join(left, name)), false)
  })
})
