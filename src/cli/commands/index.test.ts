import { checkDeclaredCommands } from '../../../test/support/declared-commands.ts'
import { svcCommands } from './index.ts'

const READING =
  /(?: list|^list|^version| grants| show | explain | who | resolve| denied| rooms|^doctor|^status |^logs |^model |^send |^messages |^audit |^settings |^costs | running|^backup |^restore |^channel |^sandbox )/

checkDeclaredCommands('svc', svcCommands, READING)
