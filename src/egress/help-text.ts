// The page of help: bin/help-egress-proxy.txt holds it, so that the front can print it without loading anything.
import { helpOn } from '../lib/help.ts'
import { commands } from './commands/index.ts'
import { EGRESS_PAGE } from './help-page.ts'

export function helpText(): Promise<string> {
  return helpOn(EGRESS_PAGE, commands, undefined)
}
