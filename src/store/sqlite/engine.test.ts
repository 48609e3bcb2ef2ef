import { join } from 'node:path'
import { suite } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { engineContract } from '../engine.contract.ts'
import { listenContract } from '../listen.contract.ts'
import { prepare } from '../things.contract.ts'
import { openSqlite } from './engine.ts'

engineContract('SQLite', (t) => prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true })))

suite('listening on SQLite', () => {
  listenContract(async (t) => {
    const path = join(tempDir(t), 'svc.db')
    const one = await prepare(t, openSqlite({ path, create: true }))
    return [one, await prepare(t, openSqlite({ path }))]
  })
})
