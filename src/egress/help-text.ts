// The help page. bin/help-egress-proxy.txt is a copy of it that the launcher prints without loading anything.
import { helpOn } from '../lib/command-line/help.ts'
import { EGRESS_PAGE } from './cli/help-page.ts'
import { egressCommands } from './commands/index.ts'

export function egressHelpText(): Promise<string> {
  return helpOn(EGRESS_PAGE, egressCommands, undefined)
}
