// The page of help: bin/help.txt holds it, so that the front can print it without loading anything.
import { helpOn } from '../lib/command-line/help.ts'
import { svcCommands } from './commands/index.ts'
import { SVC_HELP } from './help-page.ts'

export function svcHelpText(): Promise<string> {
  return helpOn(SVC_HELP, svcCommands, undefined)
}
