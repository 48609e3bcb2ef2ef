// The images of a run, which are there before anything is made.
import type { Out } from '../../lib/print.ts'
import { refuse } from '../../lib/refusal.ts'
import { ask, call } from './engine.ts'
import type { Run, Workload } from './parts.ts'

/** The proxy's is never fetched: a name that this machine does not know yet may be anybody's elsewhere. */
export async function mustHaveImages({ engine, image }: Run, workload: Workload, stderr: Out): Promise<void> {
  const isHere = (name: string): Promise<boolean> => ask(engine, ['image', 'inspect', '--format', '{{.Id}}', name])
  if (!(await isHere(image))) {
    refuse('not_found', `there is no image ${image}, which the proxy runs in`, remedyOf(engine.command, image))
  }
  if (workload.image === image || (await isHere(workload.image))) return
  if (stderr.isTerminal) stderr.write(`egress-proxy: fetching the image ${workload.image}\n`)
  await call(engine, ['pull', '--quiet', workload.image], { timeoutMs: 0 })
}

function remedyOf(command: string, image: string): string {
  const build = `npm pack && ${command} build -f docker/egress-proxy.Dockerfile -t ${image} .`
  return `build it in the source tree with: ${build}; or name one that is here: EGRESS_IMAGE=<image>`
}
