// Checks of `svc doctor` for how the instance is run: its compose file and its systemd unit.

import { type DoctorFinding, runCheck } from '../../daemons/doctor/findings.ts'
import { composeState } from '../../deploy/compose-files.ts'
import { installedUnit, planUnit } from '../../deploy/systemd.ts'
import { type ConfiguredInstance, readEnv } from '../instance/instance.ts'

/** One finding for each way that is set up; none on a machine where neither is. */
export async function checkDeployment(configured: ConfiguredInstance, engineSocket: string | undefined) {
  const findings: DoctorFinding[] = []
  const { name, layout } = configured
  const compose = await runCheck('compose', async (): Promise<DoctorFinding> => {
    const options = {
      instance: name,
      layout,
      entries: await readEnv(layout.env),
      engineSocket,
      uid: process.getuid?.(),
    }
    const state = await composeState(options)
    if (state === 'edited')
      return {
        check: 'compose',
        status: 'note',
        detail: `${layout.compose} was edited by hand, and svc generate does not overwrite it`,
        next: `move your changes to .env or services/, then svc generate ${name} --force`,
      }
    if (state === 'outdated')
      return {
        check: 'compose',
        status: 'note',
        detail: `${layout.compose} is not what this version and these settings give`,
        next: `svc generate ${name}`,
      }
    return { check: 'compose', status: 'ok', detail: state === 'absent' ? '' : `${layout.compose} is up to date` }
  })
  if (compose.detail !== '') findings.push(compose)
  const installed = await installedUnit(name)
  if (installed !== undefined)
    findings.push(await runCheck('unit', async () => compareUnit(installed, (await planUnit(configured)).text, name)))
  return findings
}

function compareUnit(installed: { path: string; text: string }, text: string, name: string): DoctorFinding {
  if (installed.text === text) return { check: 'unit', status: 'ok', detail: `${installed.path} is up to date` }
  return {
    check: 'unit',
    status: 'note',
    detail: `${installed.path} is not what this version and these settings give`,
    next: `svc generate ${name} --systemd, and install it as it says`,
  }
}
