// The command behind `npm start`: creates a demo instance once and serves it, without a key, an account or a container.
import { join } from 'node:path'
import { INSTANCE_SETTINGS } from '../../daemons/settings.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { SettingSource } from '../../lib/settings.ts'
import { shellQuote } from '../../lib/text/shell-quote.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import type { StartLinks } from '../link/start-links.ts'
import { isInstalled, PACKAGE_ROOT } from '../output/shown-commands.ts'
import { runDaemons } from './serve.ts'

const INSTANCE = 'demo'

export const startCommands = [
  defineSvcCommand({
    usage: 'start [--port|-p <n>]',
    about: `create the instance ${INSTANCE} in .svc/ of the checkout if it is missing, serve it, and print links to try; npm start runs this; --port sets its port`,
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
      const location = locateInstance(INSTANCE, environment)
      const { configured, isGroupNew } = await createInstance(location, product, { environment, clock: svc.io.clock })
      for (const warning of configured.warnings) svc.print.warn(warning)
      if (svc.io.line?.role !== 'runner' && !svc.io.line?.formerUrls)
        svc.print.line(`${isGroupNew ? 'created' : 'found'} the instance ${INSTANCE} in ${configured.layout.root}`)
      await runDaemons(svc, withPort(configured, port), {
        daemons: [],
        onReady: async (host, proxydUrl = '') => {
          try {
            showNext(svc, root, await mintStartLinks(host, proxydUrl))
          } catch (error) {
            // Another folder may own these JIDs; the instance is served anyway.
            if (!(error instanceof Refusal)) throw error
            svc.print.warn(`cannot mint links to try: ${error.message}`)
          }
        },
      })
    },
  }),
]

/** In the checkout, or for an installed package in the current directory. */
function demoRoot(): string {
  return join(isInstalled() ? process.cwd() : PACKAGE_ROOT, '.svc')
}

/** `createInstance` writes the port to the .env of a new instance; an existing .env is not changed. */
function overrideEnvironment(root: string, port: number | undefined, source: SettingSource): SettingSource {
  const { get } = source
  const listen = (): string | undefined =>
    port === undefined
      ? get('WEB_LISTEN')
      : (get('WEB_LISTEN') ?? INSTANCE_SETTINGS.WEB_LISTEN.initial).replace(/\d{1,5}$/, String(port))
  return { ...source, get: (key) => (key === 'SVC_DATA_DIR' ? root : key === 'WEB_LISTEN' ? listen() : get(key)) }
}

function showNext({ print, showCommands }: SvcContext, root: string, { chat, hook, signIn }: StartLinks): void {
  const where = showCommands('svc help').startsWith('npx ') ? ' (npx in this folder)' : ''
  const lines = [
    '',
    'Open the chat in a browser. Its agent has every tool, as an operator does, so keep this link to yourself:',
    '',
    `  ${chat}`,
    '',
    'Open the dashboard as the operator (this sign-in link works once, for 15 minutes):',
    '',
    `  ${signIn}`,
    '',
    'Post to the hook, in another terminal:',
    '',
    `  curl -i -d 'The build is green.' ${hook}`,
    '',
    'Post to the chat with curl, which prints the id of a round, and follow the round to its end:',
    '',
    `  id=$(curl -s -d 'content=What can you do?' ${chat} | sed 's/.*"turn_id":"//; s/".*//')`,
    `  curl -sN ${chat}$id/sse`,
    '',
    `A real model instead of the built-in demo, and links of your own${where}:`,
    '',
    `  export SVC_DATA_DIR=${shellQuote(root)}`,
    `  svc model ${INSTANCE}`,
    `  svc token ${INSTANCE} issue chat main`,
    `  svc send ${INSTANCE} main 'What can you do?' --wait`,
    `  svc login ${INSTANCE} local:operator`,
    '  svc help',
    '',
    'Ctrl-C stops it. Messages are kept, and the links to the chat and the hook stay the same after a restart.',
  ]
  for (const line of lines) print.line(showCommands(line))
}
