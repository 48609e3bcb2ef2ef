// The help page. bin/help.txt is a copy of it that the launcher prints without loading anything.
import { helpOn } from '../lib/command-line/help.ts'
import { svcCommands } from './commands/index.ts'
import { SVC_HELP } from './help-page.ts'

export function svcHelpText(): Promise<string> {
  return helpOn(SVC_HELP, svcCommands, undefined)
}
