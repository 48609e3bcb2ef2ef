// Writes a whole instance to one archive, even while it is served, and restores an instance from such an archive.
import type { Layout } from '../../core/layout.ts'
import { timestamp } from '../../lib/clock.ts'
import { isPlainText, printer } from '../../lib/command-line/print.ts'
import { writeAtomic } from '../../lib/files/atomic-file.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { defineSvcCommand, type SvcContext, type SvcIo } from '../command.ts'
import { openProgress } from '../output/progress.ts'

export const backupCommands = [
  defineSvcCommand({
    usage: 'backup <instance> <file> [--with-keys] [--force] [--json]',
    about:
      'write store, workspaces, web files and settings to one archive (mode 0600; - for stdout), even while the instance is served; secrets of .env only with --with-keys',
    example: 'backup demo demo.svcbackup --with-keys',
    run: async (svc, { instance, file, withKeys, force }) => {
      await svc.mustBeLocal()
      const [{ findInstance }, { backup }] = await Promise.all([
        import('../instance/instance.ts'),
        import('../backup/backup.ts'),
      ])
      const configured = await findInstance(instance, svc.io.environment)
      const progress = openProgress(svc.io.stderr)
      const output = file === '-' ? requirePipedOutput(svc.io, instance) : undefined
      const nowMs = svc.io.clock.now()
      const options = { file, output, hasKeys: withKeys, isForced: force, nowMs, onProgress: progress.show }
      const result = await backup(configured, options).finally(progress.end)
      const { missingWorkspaces } = result
      if (missingWorkspaces.length === 0) await recordBackup(configured.layout, nowMs)
      const { stderr, environment } = svc.io
      const { json } = svc.print
      // If the archive goes to stdout, the result goes to stderr.
      const print = output ? printer({ stdout: stderr, stderr, plain: isPlainText(environment), json }) : svc.print
      const { engine, rows, files, bytes, leftOut, notes } = result
      for (const note of notes) print.warn(note)
      if (missingWorkspaces.length > 0)
        print.warn(
          `the backup is not complete: ${describeFolders(missingWorkspaces)} not in this data directory; copy groups/<folder>/ from the machines that have them`,
        )
      print.record(
        { file, bytes, store: `${rows} rows of ${engine}`, files, keys: describeKeys(result) },
        {
          instance,
          file,
          bytes,
          engine,
          rows,
          files,
          has_keys: withKeys,
          left_out: leftOut,
          missing_workspaces: missingWorkspaces,
          notes,
        },
      )
      return missingWorkspaces.length === 0 ? 0 : 1
    },
  }),
]

/** For a sentence that ends with what is wrong with the workspaces. */
function describeFolders(folders: readonly string[]): string {
  return folders.length === 1 ? `the workspace of ${folders[0]} is` : `the workspaces of ${folders.join(', ')} are`
}

/** The archive is complete, whether or not its time can be noted. */
async function recordBackup({ lastBackup }: Layout, nowMs: number): Promise<void> {
  await writeAtomic(lastBackup, `${timestamp(nowMs)}\n`, 0o644).catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error
  })
}

function requirePipedOutput(io: SvcIo, instance: string): SvcIo['writeBytes'] {
  if (io.stdout.isTerminal)
    refuse(
      'invalid',
      'stdout is a terminal, but a backup is binary; nothing was written',
      `redirect it to a file or a program: svc backup ${instance} - > ${instance}.svcbackup`,
    )
  return (bytes) => io.writeBytes(bytes)
}

function describeKeys({ hasKeys, leftOut }: { hasKeys: boolean; leftOut: readonly string[] }): string {
  if (hasKeys) return 'included; protect the file like the keys'
  return leftOut.length === 0 ? 'none in .env' : `not included; keep these elsewhere: ${leftOut.join(', ')}`
}

export const restoreCommands = [
  defineSvcCommand({
    usage: 'restore <file> <instance> [--database <url>] [--sqlite] [--json]',
    about:
      'create an instance from a backup (- for stdin) after verifying all of it; --database names an empty PostgreSQL database, --sqlite restores to a file; either works with a backup of the other engine',
    example: 'restore demo.svcbackup demo2',
    run: async (svc, { file, instance, database, sqlite }) => {
      const [{ locateInstance }, { restore }, { throwUsageError }] = await Promise.all([
        import('../instance/instance.ts'),
        import('../backup/restore.ts'),
        import('../../lib/command-line/program.ts'),
      ])
      if (database !== undefined && sqlite) throwUsageError('--database and --sqlite exclude each other')
      const location = locateInstance(instance, svc.io.environment)
      const progress = openProgress(svc.io.stderr)
      const { environment, stdin, promptHidden: ask } = svc.io
      if (file === '-' && ask) refuse('invalid', 'stdin is a terminal; nothing was changed', 'redirect a backup to it')
      const input = file === '-' ? stdin : undefined
      const options = { file, input, location, environment, database, isSqlite: sqlite, onProgress: progress.show }
      showRestored(svc, instance, await restore(options).finally(progress.end))
    },
  }),
]

function showRestored(
  { print }: SvcContext,
  instance: string,
  { header, root, engine, rows, files, missing }: Awaited<ReturnType<typeof import('../backup/restore.ts').restore>>,
): void {
  const { instance: of, created_at, missing_workspaces } = header
  print.record(
    { instance, root, backup: `of ${of}, ${created_at}`, store: `${rows} rows into ${engine}`, files },
    { instance, root, of, created_at, engine, rows, files, missing, missing_workspaces },
  )
  if (missing.length > 0) print.warn(`left out of the backup; add them to ${root}/.env: ${missing.join(', ')}`)
  if (missing_workspaces.length > 0)
    print.warn(
      `${describeFolders(missing_workspaces)} not in the backup: messages wait until you copy them from the machines that have them to ${root}/groups/`,
    )
  if (!print.json) print.say(`next: svc doctor ${instance}, then svc serve ${instance}`)
}
