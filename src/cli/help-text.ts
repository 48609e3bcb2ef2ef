// The page of help: bin/help.txt holds it, so that the front can print it without loading anything.
import { loadAll } from './command.ts'
import { commands } from './commands/index.ts'
import { helpPage } from './help.ts'

export async function helpText(): Promise<string> {
  return helpPage(await loadAll(commands))
}
