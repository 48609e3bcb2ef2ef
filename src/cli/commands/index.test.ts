import { declaredWell } from '../../../test/support/declared-commands.ts'
import { commands } from './index.ts'

const READING =
  /(?: list|^list|^version| grants| show | resolve| denied| rooms|^doctor|^model |^send |^messages |^audit |^channel | say | react )/

declaredWell('svc', commands, READING)
