// Finds and removes what runs have created in the engine, by label.
import { type ContainerEngine, runEngine } from '../container/engine.ts'
import { LABEL } from '../container/engine-args.ts'
import { isOrphanedRun, runTagOf } from '../container/run-tag.ts'

interface RunResources {
  readonly containers: readonly string[]
  readonly networks: readonly string[]
}

/** Of one run, or of all. */
async function findRunResources(engine: ContainerEngine, tag?: string): Promise<RunResources> {
  const label = tag === undefined ? LABEL : `${LABEL}=${tag}`
  const filter = ['--filter', `label=${label}`]
  const containers = await runEngine(engine, ['ps', '--all', ...filter, '--format', '{{.Names}}'])
  const networks = await runEngine(engine, ['network', 'ls', ...filter, '--format', '{{.Name}}'])
  return { containers: linesOf(containers), networks: linesOf(networks) }
}

/** Removes as many as it can and returns the names of the rest. */
export async function removeRunResources(engine: ContainerEngine, tag: string): Promise<readonly string[]> {
  const { containers, networks } = await findRunResources(engine, tag)
  if (containers.length + networks.length === 0) return []
  for (const name of containers) await attempt(() => removeContainer(engine, name))
  for (const name of networks) await attempt(() => removeNetwork(engine, name))
  const left = await findRunResources(engine, tag)
  return [...left.containers, ...left.networks]
}

/** Of runs whose process and cleanup watcher are gone. */
export async function removeOrphanedRuns(engine: ContainerEngine): Promise<void> {
  const { containers, networks } = await findRunResources(engine)
  const tags = new Set([...containers, ...networks].flatMap((name) => runTagOf(name) ?? []))
  for (const tag of tags) if (isOrphanedRun(tag)) await removeRunResources(engine, tag)
}

/** By force: podman would otherwise signal it and wait. */
export async function removeContainer(engine: ContainerEngine, name: string): Promise<void> {
  const own = engine.kind === 'podman' ? ['--time', '0'] : []
  await runEngine(engine, ['rm', '--force', '--volumes', ...own, name])
}

export async function removeNetwork(engine: ContainerEngine, name: string): Promise<void> {
  await runEngine(engine, ['network', 'rm', name])
}

/** Another process may be removing the same; the caller checks which remain. */
async function attempt(work: () => Promise<void>): Promise<void> {
  await work().catch(() => undefined)
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '')
}
