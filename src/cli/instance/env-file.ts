// The .env of an instance as a file that a command changes, and restores if the rest of its work fails.
import { chown, stat } from 'node:fs/promises'
import type { Layout } from '../../core/layout.ts'
import { refuseDisk, writeAtomic } from '../../lib/files/atomic-file.ts'
import { readEnvText } from '../../lib/files/env-file.ts'
import { refuse } from '../../lib/refusal.ts'
import { parseDotenv } from '../../lib/text/dotenv.ts'

export interface EnvFile {
  entries(): ReadonlyMap<string, string>
  /** Writes the changed text, if it is another one. Keeps the owner. */
  change(edit: (text: string) => string): Promise<void>
  /** Writes the text as it was when the file was opened. */
  restore(): Promise<void>
}

export async function openEnvFile({ env }: Layout): Promise<EnvFile> {
  const original =
    (await readEnvText(env)) ??
    refuse('not_found', `there is no ${env}`, 'svc create writes it; existing files stay as they are')
  let current = original
  const write = async (text: string): Promise<void> => {
    if (text === current) return
    const { uid, gid } = await stat(env).catch((error) => refuseDisk(error, 'read', env))
    await writeAtomic(env, text, 0o600)
    if (uid !== process.getuid?.()) await chown(env, uid, gid).catch((error) => refuseDisk(error, 'write', env))
    current = text
  }
  return {
    entries: () => parseDotenv(current, env),
    change: (edit) => write(edit(current)),
    restore: () => write(original),
  }
}
