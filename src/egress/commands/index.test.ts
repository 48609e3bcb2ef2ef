import { checkDeclaredCommands } from '../../../test/support/declared-commands.ts'
import { egressCommands } from './index.ts'

checkDeclaredCommands('egress-proxy', egressCommands, /^(?:state|check) /)
