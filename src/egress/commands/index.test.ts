import { declaredWell } from '../../../test/support/declared-commands.ts'
import { commands } from './index.ts'

declaredWell('egress-proxy', commands, /^(?:state|check) /)
