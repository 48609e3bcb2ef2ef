import { join } from 'node:path'
import { tempDir } from '../../../test/support/temp.ts'
import { engineContract } from '../engine.contract.ts'
import { prepare } from '../things.contract.ts'
import { openSqlite } from './engine.ts'

engineContract('SQLite', (t) => prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true })))
