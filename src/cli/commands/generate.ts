// Writes the files with which other programs run an instance: by default a compose file for containers.
import { existsSync } from 'node:fs'
import { refuse } from '../../lib/refusal.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'

export const generateCommands = [
  defineSvcCommand({
    usage: 'generate <instance> [--postgres] [--kubernetes] [--systemd] [--force]',
    about:
      'write docker-compose.yml into the data directory, with the settings of each container in env/; --postgres adds a PostgreSQL service; --kubernetes writes kubernetes.yml and kubernetes-secrets.yml instead; --systemd writes a unit for a server without containers instead; --force overwrites files that were edited by hand',
    example: 'generate demo',
    run: async (svc, { instance, postgres, kubernetes, systemd, force }) => {
      if (systemd && (postgres || kubernetes))
        refuse(
          'invalid',
          `--systemd runs svc without containers, so it does not go with --${postgres ? 'postgres' : 'kubernetes'}`,
        )
      if (kubernetes && postgres)
        refuse('invalid', '--postgres is a service of the compose file; Kubernetes uses the database of DATABASE_URL')
      if (systemd) await writeSystemdUnit(svc, instance)
      else if (kubernetes) await writeKubernetes(svc, instance, force)
      else await writeCompose(svc, instance, { hasPostgres: postgres, isForced: force })
    },
  }),
]

/** Port numbers below are reserved for root. */
const PORT_MIN = 1024

async function writeSystemdUnit(svc: SvcContext, instance: string): Promise<void> {
  const { io, print } = svc
  const [{ findUnitUser, unitName, writeUnit }, { locateInstance, mustFindInstanceDirectory }, { shellQuote }] =
    await Promise.all([
      import('../../deploy/systemd.ts'),
      import('../instance/instance.ts'),
      import('../../lib/text/shell-quote.ts'),
    ])
  await svc.mustBeLocal()
  const location = locateInstance(instance, io.environment)
  await mustFindInstanceDirectory(location, io.environment)
  // Before .env is read: the refusal then says who may.
  await findUnitUser(location)
  const configured = await svc.findInstance()
  const { path, user } = await writeUnit(configured)
  const { port } = configured.settings.WEB_LISTEN
  if (user === 'root')
    print.warn('the data directory belongs to root, so svc runs as root; an ordinary user is enough (docs/server.md)')
  else if (port > 0 && port < PORT_MIN)
    print.warn(`the user ${user} cannot listen on port ${port}: put a web server in front (docs/reverse-proxy.md)`)
  print.line(`${path}: runs as ${user}`)
  const sudo = process.getuid?.() === 0 ? '' : 'sudo '
  // A copy instead of `systemctl link`: the owner of a linked file could make its unit run as root.
  print.say(`To install and start it:
  ${sudo}install -m 644 ${shellQuote(path)} /etc/systemd/system/
  ${sudo}systemctl daemon-reload
  ${sudo}systemctl enable --now ${unitName(configured.name)}`)
}

interface WriteComposeOptions {
  /** Adds the PostgreSQL service to .env; a service that is there stays. */
  readonly hasPostgres: boolean
  readonly isForced: boolean
}

/** Also called by `svc run`. */
export async function writeCompose(svc: SvcContext, instance: string, options: WriteComposeOptions) {
  const { io, print } = svc
  const [
    { locateInstance, mustFindInstanceDirectory },
    { findContainerOwner, generateCompose },
    { openEnvFile },
    { engineSocketOf },
  ] = await Promise.all([
    import('../instance/instance.ts'),
    import('../../deploy/compose-files.ts'),
    import('../instance/env-file.ts'),
    import('../../deploy/compose-command.ts'),
  ])
  await svc.mustBeLocal()
  const location = locateInstance(instance, io.environment)
  await mustFindInstanceDirectory(location, io.environment)
  const uid = process.getuid?.()
  // Before .env is read: the refusal then says who may.
  if (uid !== 0) await findContainerOwner(location.layout, uid)
  const { layout } = await svc.findInstance()
  if (existsSync(layout.packageChanges))
    print.warn(`a change of a package is not finished: svc packages ${instance} list completes or undoes it`)
  const env = await openEnvFile(layout)
  if (options.hasPostgres) {
    const { addPostgresSettings } = await import('../../deploy/postgres-settings.ts')
    await env.change((text) => addPostgresSettings(text, layout))
  }
  try {
    const generated = await generateCompose({
      instance,
      layout,
      entries: env.entries(),
      isForced: options.isForced,
      engineSocket: engineSocketOf(io.environment.get('DOCKER_HOST')),
      uid,
      warn: print.warn,
    })
    const { path, services, isChanged, newOwner } = generated
    if (newOwner)
      print.say(
        `store, groups and the other directories of ${instance} now belong to uid ${newOwner.uid}, the user of its containers`,
      )
    print.line(`${path}: ${isChanged ? `${services.length} services` : 'unchanged'}`)
    return { ...generated, layout, entries: env.entries() }
  } catch (error) {
    await env.restore()
    throw error
  }
}

async function writeKubernetes(svc: SvcContext, instance: string, isForced: boolean): Promise<void> {
  const { io, print } = svc
  const [{ addKubernetesKeys, generateKubernetes }, { openEnvFile }, { shellQuote }] = await Promise.all([
    import('../../deploy/kubernetes-files.ts'),
    import('../instance/env-file.ts'),
    import('../../lib/text/shell-quote.ts'),
  ])
  await svc.mustBeLocal()
  const { layout } = await svc.findInstance()
  const env = await openEnvFile(layout)
  try {
    await env.change((text) => addKubernetesKeys(text, layout, io.environment))
    const generated = await generateKubernetes({ instance, layout, entries: env.entries(), isForced, warn: print.warn })
    const { name, manifest, secrets, isChanged } = generated
    print.line(`${manifest}: ${isChanged ? 'no secrets, mode 0644' : 'unchanged'}`)
    print.line(`${secrets}: ${isChanged ? 'secrets, mode 0600' : 'unchanged'}`)
    print.line('\nnext:')
    print.line(`  kubectl create namespace ${name}`)
    print.line(`  kubectl apply --server-side -n ${name} -f ${shellQuote(secrets)} -f ${shellQuote(manifest)}`)
    print.line(`  kubectl -n ${name} rollout status statefulset/${name}-files`)
  } catch (error) {
    await env.restore()
    throw error
  }
}
