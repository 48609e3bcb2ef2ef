// The page of help: bin/help.txt holds it, so that the front can print it without loading anything.
import type { Command } from './command.ts'
import { commands } from './commands/index.ts'
import { helpPage } from './help.ts'

export async function helpText(): Promise<string> {
  return helpPage(await allCommands())
}

/** Every command, by its first word. */
export function allCommands(): Promise<(readonly Command[])[]> {
  return Promise.all(Object.values(commands).map((load) => load()))
}
