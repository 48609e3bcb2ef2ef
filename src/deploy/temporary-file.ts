// A file that exists while some work runs.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export async function withTemporaryFile<T>(name: string, text: string, work: (path: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-'))
  try {
    const path = join(directory, name)
    await writeFile(path, text, { mode: 0o600 })
    return await work(path)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
