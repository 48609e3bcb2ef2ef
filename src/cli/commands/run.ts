// Runs an instance in containers, in the foreground.
import { statSync } from 'node:fs'
import type { ServiceContainer } from '../../deploy/container-list.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { writeCompose } from './generate.ts'

export const runContainersCommands = [
  defineSvcCommand({
    usage: 'run <instance> [--force]',
    about:
      'write the compose file as svc generate does, then run all containers in the foreground until Ctrl-C; removes containers of services that are gone; --force overwrites a compose file that was edited by hand',
    example: 'run demo',
    run: async (svc, { instance, force }) => {
      const [generated, { composeArguments, findCompose, mustHaveImage, mustReachEngine, runAttached }] =
        await Promise.all([
          writeCompose(svc, instance, { hasPostgres: false, isForced: force }),
          import('../../deploy/compose-command.ts'),
        ])
      const compose = await findCompose()
      await mustReachEngine(compose)
      await mustHaveImage(compose, generated.image)
      const before = composeArguments(compose, instance, generated.layout)
      const { listContainers } = await import('../../deploy/container-list.ts')
      const running = await listContainers(compose.engine, instance)
      mustBeOwnContainers(running, instance, generated.layout.compose)
      await mustHaveFreePorts(running, generated.published, generated.layout.env)
      const isTerminal = svc.io.prompt !== undefined
      const call = (...args: string[]) => runAttached(compose, [...before, ...args], isTerminal)
      const removeAll = () => call('down', '--remove-orphans')
      if (generated.entries.get('POSTGRES_PASSWORD')) {
        svc.print.say('starting postgres')
        const { code, isInterrupted } = await call('up', '--detach', 'postgres')
        if (isInterrupted) await removeAll()
        if (isInterrupted || code !== 0) return code
        try {
          await fillDatabase(svc, instance)
        } catch (error) {
          await removeAll()
          throw error
        }
      }
      svc.print.say(`starting ${generated.services.length} containers; Ctrl-C stops them`)
      const { code, isInterrupted } = await call('up', '--remove-orphans')
      // After a failure the containers stay, for their logs.
      if (isInterrupted) await removeAll()
      return code
    },
  }),
]

/** Refuses if an instance of the same name runs from another data directory: compose would replace its containers. */
function mustBeOwnContainers(found: readonly ServiceContainer[], instance: string, file: string): void {
  // The same file may have several paths.
  const { ino } = statSync(file)
  const isOwn = (path: string): boolean => path === file || statSync(path, { throwIfNoEntry: false })?.ino === ino
  const other = found.find(({ composeFile }) => composeFile !== undefined && !composeFile.split(',').some(isOwn))
  if (other)
    refuse(
      'conflict',
      `containers of another instance named ${instance} exist, made from ${other.composeFile}`,
      'stop that one first, or give this instance another name; names that differ only in case count as equal',
    )
}

/** Refuses if another program has a port, but not if it is an earlier container of the same instance. */
async function mustHaveFreePorts(
  found: readonly ServiceContainer[],
  published: Readonly<Record<string, string>>,
  env: string,
): Promise<void> {
  const { isPortFree } = await import('../../deploy/published-port.ts')
  for (const [daemon, address] of Object.entries(published)) {
    if (await isPortFree(address)) continue
    if (found.some(({ service, state }) => service === daemon && state === 'running')) continue
    refuse(
      'conflict',
      `${address} is already in use, and ${daemon} needs it`,
      `stop the program that uses it, or set another ${daemon === 'proxyd' ? 'WEB_LISTEN' : 'ROUTD_LISTEN'} in ${env}`,
    )
  }
}

const DATABASE_WAIT_MS = 120_000
const DATABASE_RETRY_MS = 500

/** Creates the tables and the group main in a database that has just been made. Safe to repeat, like `svc create`. */
async function fillDatabase({ io }: SvcContext, instance: string): Promise<void> {
  const [{ setTimeout: wait }, { locateInstance }, { createInstance, DEFAULT_PRODUCT, mustFindProduct }] =
    await Promise.all([
      import('node:timers/promises'),
      import('../instance/instance.ts'),
      import('../instance/create-instance.ts'),
    ])
  const product = await mustFindProduct(DEFAULT_PRODUCT)
  let isStopped = false
  void io.stopped().then(() => {
    isStopped = true
  })
  const giveUpAt = performance.now() + DATABASE_WAIT_MS
  for (;;) {
    try {
      await createInstance(locateInstance(instance, io.environment), product, io)
      return
    } catch (error) {
      const isStarting = error instanceof Refusal && error.code === 'unavailable' && performance.now() < giveUpAt
      if (!isStarting || isStopped) throw error
      await wait(DATABASE_RETRY_MS)
    }
  }
}
