// What `npm start` runs: an instance to look at, made once, served at once. No key, no account, no container.
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { INSTANCE_SETTINGS } from '../../daemons/settings.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { SettingSource } from '../../lib/settings.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import type { StartLinks } from '../link/start-links.ts'
import { shellQuote } from '../output/shell-quote.ts'
import { runDaemons } from './serve.ts'

const INSTANCE = 'demo'

export const startCommands = [
  defineSvcCommand({
    usage: 'start [--port|-p <n>]',
    about: `make an instance ${INSTANCE} in .svc/ of the checkout, once, serve it, and print links to try; what npm start runs; --port is where it listens`,
    example: 'start --port 9000',
    run: async (svc, { port: typed }) => {
      const [
        { locateInstance },
        { DEFAULT_PRODUCT, createInstance, mustFindProduct },
        { mintStartLinks },
        { parsePortFlag, withPort },
      ] = await Promise.all([
        import('../instance/instance.ts'),
        import('../instance/create-instance.ts'),
        import('../link/start-links.ts'),
        import('../input/port-flag.ts'),
      ])
      const port = typed === undefined ? undefined : parsePortFlag(typed)
      const root = svc.io.environment.get('SVC_DATA_DIR') || demoRoot()
      const environment = overrideEnvironment(root, port, svc.io.environment)
      const product = await mustFindProduct(DEFAULT_PRODUCT)
      const made = await createInstance(locateInstance(INSTANCE, environment), product, {
        environment,
        clock: svc.io.clock,
      })
      const { configured, isGroupNew } = made
      for (const warning of configured.warnings) svc.print.warn(warning)
      svc.print.line(`${isGroupNew ? 'made' : 'found'} the instance ${INSTANCE} in ${configured.layout.root}`)
      await runDaemons(svc, withPort(configured, port), {
        daemons: [],
        onReady: async (host, door = '') => {
          try {
            showNext(svc, root, await mintStartLinks(host, door))
          } catch (error) {
            // A folder of the operator's may have these names: it serves all the same.
            if (!(error instanceof Refusal)) throw error
            svc.print.warn(`there are no links to try: ${error.message}`)
          }
        },
      })
    },
  }),
]

/** At the checkout's root; of a package that was installed, where it was called from. */
function demoRoot(): string {
  return join(isInstalled() ? process.cwd() : HOME, '.svc')
}

const HOME = fileURLToPath(new URL('../../..', import.meta.url))

function isInstalled(): boolean {
  return HOME.includes(`${sep}node_modules${sep}`)
}

/** A new instance is told its port for good; one that is there has its own file. */
function overrideEnvironment(root: string, port: number | undefined, { name, get }: SettingSource): SettingSource {
  const listen = (): string | undefined =>
    port === undefined
      ? get('WEB_LISTEN')
      : (get('WEB_LISTEN') ?? INSTANCE_SETTINGS.WEB_LISTEN.initial).replace(/\d+$/, String(port))
  return { name, get: (key) => (key === 'SVC_DATA_DIR' ? root : key === 'WEB_LISTEN' ? listen() : get(key)) }
}

function showNext({ print }: SvcContext, root: string, { chat, hook }: StartLinks): void {
  // In its checkout npx finds the command; elsewhere it would find another package.
  const [svc, where] = isInstalled()
    ? ['svc', '']
    : ['npx svc', ' (npx in this folder; npm install -g . puts svc on the PATH)']
  const lines = [
    '',
    'Open the chat in a browser:',
    '',
    `  ${chat}`,
    '',
    'Post to the hook, in another terminal:',
    '',
    `  curl -i -d 'The build is green.' ${hook}`,
    '',
    'Ask the chat with curl, which answers with the id of a round, and follow the round to its end:',
    '',
    `  id=$(curl -s -d 'content=What can you do?' ${chat} | sed 's/.*"turn_id":"//; s/".*//')`,
    `  curl -sN ${chat}$id/sse`,
    '',
    `A real model instead of the built-in demo, and links of your own${where}:`,
    '',
    `  export SVC_DATA_DIR=${shellQuote(root)}`,
    `  ${svc} model ${INSTANCE}`,
    `  ${svc} token ${INSTANCE} issue chat main`,
    `  ${svc} send ${INSTANCE} main 'What can you do?' --wait`,
    `  ${svc} help`,
    '',
    'Ctrl-C ends it. What was said stays, and these links are the same at the next start.',
  ]
  for (const line of lines) print.line(line)
}
