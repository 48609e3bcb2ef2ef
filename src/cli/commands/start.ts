// What `npm start` runs: an instance to look at, made once, served at once. No key, no account, no container.
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Source } from '../../lib/settings.ts'
import { command, type Svc } from '../command.ts'
import { runDaemons } from './serve.ts'

const INSTANCE = 'demo'

export const startCommands = [
  command({
    usage: 'start',
    about: `make an instance ${INSTANCE} in .svc/ of the checkout, once, and serve it; what npm start runs`,
    example: 'start',
    run: async (svc) => {
      const [{ placeOf }, { DEFAULT_PRODUCT, makeInstance, mustFindProduct }] = await Promise.all([
        import('../instance.ts'),
        import('../new-instance.ts'),
      ])
      const root = svc.io.environment.get('SVC_DATA_DIR') || demoRoot()
      const environment = within(root, svc.io.environment)
      const product = await mustFindProduct(DEFAULT_PRODUCT)
      const made = await makeInstance(placeOf(INSTANCE, environment), product, { environment, clock: svc.io.clock })
      const { configured, group } = made
      for (const warning of configured.warnings) svc.print.warn(warning)
      svc.print.line(`${group ? 'made' : 'found'} the instance ${INSTANCE} in ${configured.layout.root}`)
      await runDaemons(svc, configured, { daemons: [], onReady: (url) => showNext(svc, root, url) })
    },
  }),
]

/** At the checkout's root; of a package that was installed, where it was called from. */
function demoRoot(): string {
  const home = fileURLToPath(new URL('../../..', import.meta.url))
  return join(home.includes(`${sep}node_modules${sep}`) ? process.cwd() : home, '.svc')
}

function within(root: string, environment: Source): Source {
  return { name: environment.name, get: (key) => (key === 'SVC_DATA_DIR' ? root : environment.get(key)) }
}

function showNext({ print }: Svc, root: string, url: string | undefined): void {
  const lines = [
    '',
    `The dashboard will be at ${url}/dash/. Try now, in another terminal:`,
    '',
    `  export SVC_DATA_DIR=${root}`,
    `  npx svc group ${INSTANCE} grant local:me '**'`,
    `  curl -H "Authorization: Bearer $(npx svc bearer ${INSTANCE} local:me)" ${url}/v1/groups`,
    `  npx svc token ${INSTANCE} issue webhook main ci`,
    `  npx svc export ${INSTANCE}`,
    `  npx svc doctor ${INSTANCE}`,
    '',
    'Ctrl-C ends it; the instance stays.',
  ]
  for (const line of lines) print.line(line)
}
