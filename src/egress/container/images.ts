// Makes sure that the images of a run are present before anything is created.
import type { OutputStream } from '../../lib/command-line/print.ts'
import { refuse } from '../../lib/refusal.ts'
import { engineSucceeds, runEngine } from './engine.ts'
import type { Run, Workload } from './engine-args.ts'

/** The proxy's image is never pulled: an unknown name may belong to anyone in a registry. */
export async function ensureImages({ engine, image }: Run, workload: Workload, stderr: OutputStream): Promise<void> {
  const isHere = (name: string): Promise<boolean> =>
    engineSucceeds(engine, ['image', 'inspect', '--format', '{{.Id}}', name])
  if (!(await isHere(image))) {
    refuse('not_found', `no image ${image}, in which the proxy runs`, remedyOf(engine.command, image))
  }
  if (workload.image === image || (await isHere(workload.image))) return
  if (stderr.isTerminal) stderr.write(`egress-proxy: fetching the image ${workload.image}\n`)
  await runEngine(engine, ['pull', '--quiet', workload.image], { timeoutMs: 0 })
}

function remedyOf(command: string, image: string): string {
  const build = `${command} build -t ${image} .`
  return `build it in the source tree with: ${build}; or use an existing one: EGRESS_IMAGE=<image>`
}
