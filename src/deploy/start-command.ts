// The command that starts an instance in the way in which it is set up: as containers, as a unit of systemd, or as a process.
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Layout } from '../core/layout.ts'
import { installedUnit, unitName } from './systemd.ts'

export async function startCommand(
  { name, layout }: { readonly name: string; readonly layout: Layout },
  unitDirectories?: readonly string[],
): Promise<string> {
  const hasContainers = await stat(layout.compose).then(
    () => true,
    () => false,
  )
  if (hasContainers) return `svc run ${name}`
  const unit = await installedUnit(name, unitDirectories)
  // A unit may belong to an instance of the same name elsewhere.
  const isOwn = unit?.text.includes(`"SVC_DATA_DIR=${dirname(layout.root)}"`) === true
  return isOwn ? `sudo systemctl start ${unitName(name)}` : `svc serve ${name}`
}
