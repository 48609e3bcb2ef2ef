import { checkDeclaredCommands } from '../../../test/support/declared-commands.ts'
import { svcCommands } from './index.ts'

const READING =
  /(?: list|^list|^version| grants| show | resolve| denied| rooms|^doctor|^model |^send |^messages |^audit |^backup |^restore |^channel | say | react )/

checkDeclaredCommands('svc', svcCommands, READING)
