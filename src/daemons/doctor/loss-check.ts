// Reports commits that were on the disk and are missing now.
import type { Engine } from '../../store/engine.ts'
import { type DoctorFinding, makeFinding } from './findings.ts'

/** No finding where the store is a server's, which guards its own log. */
export async function checkLosses(
  { lossWatch }: Pick<Engine, 'lossWatch'>,
  instance: string,
): Promise<DoctorFinding[]> {
  if (!lossWatch) return []
  const losses = await lossWatch.find()
  const next = `restore a backup, or accept the loss: svc doctor ${instance} --fix`
  const finding = makeFinding('lost rows', losses, 'no commit is missing that was on the disk', next)
  if (losses.length === 0) return [finding]
  const fix = { detail: 'forget that rows were lost', isRemoval: true, apply: () => lossWatch.forget() }
  return [{ ...finding, fix }]
}
