// Writes the configuration as one YAML document to a file or stdout.
import { access, constants, realpath, stat } from 'node:fs/promises'
import { errnoCode, refuseDisk, writeAtomic } from '../../lib/files/atomic-file.ts'
import { refuse } from '../../lib/refusal.ts'
import { defineSvcCommand } from '../command.ts'

export const exportCommands = [
  defineSvcCommand({
    usage: 'export <instance> [<file>]',
    about: 'write the configuration as one YAML document, to <file> (mode 0600) or stdout; never secrets or tokens',
    example: 'export demo config.yaml',
    run: async (svc, { file }) => {
      const [{ manifestVerbs }, { resources }] = [
        await import('../../faces/manifest/manifest-verbs.ts'),
        await import('../../resources/index.ts'),
      ]
      const text = await svc.call(manifestVerbs(resources).export, {})
      if (file === undefined || file === '-') svc.print.raw(text)
      else await writeAtomic(await resolveWritable(file), text, 0o600)
      svc.print.say(`wrote ${file ?? 'stdout'} (${Buffer.byteLength(text)} bytes)`)
    },
  }),
]

/** The target of a link. Refuses anything but a regular file, because a rename would replace a device. */
async function resolveWritable(file: string): Promise<string> {
  try {
    const path = await realpath(file)
    if (!(await stat(path)).isFile())
      refuse('invalid', `cannot write ${file}: it is not a regular file`, 'leave the file out to write to stdout')
    await access(path, constants.W_OK)
    return path
  } catch (error) {
    if (errnoCode(error) === 'ENOENT') return file
    return refuseDisk(error, 'write', file)
  }
}
