import { declaredWell } from '../../../test/support/declared-commands.ts'
import { commands } from './index.ts'

const READING =
  /(?: list| grants| show | resolve| denied| rooms|^doctor|^model |^send |^messages |^channel | say | react )/

declaredWell('svc', commands, READING)
