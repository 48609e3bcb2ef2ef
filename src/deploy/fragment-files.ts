// Reads services/*.yml of an instance and checks what one fragment alone cannot tell: names, dependencies and files.
import { readdir, realpath, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Layout } from '../core/layout.ts'
import { DAEMON_NAMES } from '../daemons/settings.ts'
import { errnoCode, readText, refuseDisk } from '../lib/files/atomic-file.ts'
import { refuse } from '../lib/refusal.ts'
import { packageServices } from './compose-document.ts'
import { PACKAGE_SERVICES_MAX } from './container-networks.ts'
import { EGRESS_SERVICE, type Fragment, POSTGRES_SERVICE, parseFragment } from './fragment.ts'

const FRAGMENT_MAX_BYTES = 1_048_576

/** Sorted by name. An instance without packages has none, and needs no directory. */
export async function readFragments({ services }: Layout, hasPostgres: boolean): Promise<readonly Fragment[]> {
  const names = (await fileNames(services)).filter((name) => /\.ya?ml$/.test(name)).toSorted()
  const fragments: Fragment[] = []
  for (const name of names) {
    if (name.endsWith('.yaml')) refuse('invalid', `rename ${join(services, name)} to end in .yml`)
    fragments.push(await parseFragment(await readText(join(services, name), FRAGMENT_MAX_BYTES), name.slice(0, -4)))
  }
  mustFitTogether(fragments, hasPostgres)
  for (const fragment of fragments) await mustHaveFiles(services, fragment)
  return fragments
}

async function fileNames(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory)
  } catch (error) {
    return errnoCode(error) === 'ENOENT' ? [] : refuseDisk(error, 'read', directory)
  }
}

function mustFitTogether(fragments: readonly Fragment[], hasPostgres: boolean): void {
  const services = packageServices(fragments)
  if (services.length > PACKAGE_SERVICES_MAX)
    refuse(
      'invalid',
      `the packages have ${services.length} services; at most ${PACKAGE_SERVICES_MAX} fit on their network`,
    )
  const owners = new Map<string, string>()
  for (const { name, fragment } of services) {
    const other = owners.get(name)
    if (other !== undefined)
      refuse(
        'conflict',
        `services/${other}.yml and services/${fragment.name}.yml both have a service ${name}`,
        'remove one of the packages',
      )
    owners.set(name, fragment.name)
  }
  const own = [...DAEMON_NAMES, EGRESS_SERVICE, ...(hasPostgres ? [POSTGRES_SERVICE] : [])]
  for (const { name, fragment, service } of services)
    for (const needed of Object.keys(service.depends_on ?? {}))
      if (!owners.has(needed) && !own.some((each) => each === needed))
        refuse(
          'invalid',
          `services/${fragment.name}.yml: ${name} depends on ${needed.slice(0, 80)}, which does not exist`,
          'install the package that has it',
        )
}

/** Docker would create a missing one as a directory, and a link could lead to any file of this machine. */
async function mustHaveFiles(services: string, fragment: Fragment): Promise<void> {
  for (const [service, { volumes = [] }] of fragment.services)
    for (const { kind, source } of volumes) {
      if (kind !== 'file') continue
      const home = join(services, fragment.name)
      const path = join(home, source)
      const where = `services/${fragment.name}.yml: ${service} mounts ./${source}`
      await stat(path).catch(() =>
        refuse('not_found', `${where}, but ${path} does not exist`, 'install the package again'),
      )
      if (!(await realpath(path)).startsWith(`${await realpath(home)}${sep}`))
        refuse('invalid', `${where}, which is a link that leads out of the package`)
    }
}
