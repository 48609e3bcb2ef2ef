// What runs have left with the engine, found by their label, and its removal.
import { call, type Engine } from './engine.ts'
import { LABEL } from './parts.ts'
import { isOfTheDead, tagOf } from './tag.ts'

export interface Remains {
  readonly containers: readonly string[]
  readonly networks: readonly string[]
}

/** Of one run, or of all. */
export async function findRemains(engine: Engine, tag?: string): Promise<Remains> {
  const label = tag === undefined ? LABEL : `${LABEL}=${tag}`
  const filter = ['--filter', `label=${label}`]
  const containers = await call(engine, ['ps', '--all', ...filter, '--format', '{{.Names}}'])
  const networks = await call(engine, ['network', 'ls', ...filter, '--format', '{{.Name}}'])
  return { containers: linesOf(containers), networks: linesOf(networks) }
}

/** Removes all of it that can be removed, and answers with what is left. */
export async function removeRemains(engine: Engine, tag: string): Promise<readonly string[]> {
  const { containers, networks } = await findRemains(engine, tag)
  if (containers.length + networks.length === 0) return []
  for (const name of containers) await attempt(() => removeContainer(engine, name))
  for (const name of networks) await attempt(() => removeNetwork(engine, name))
  const left = await findRemains(engine, tag)
  return [...left.containers, ...left.networks]
}

/** Runs whose process is gone, and whose watch is too. */
export async function removeDead(engine: Engine): Promise<void> {
  const { containers, networks } = await findRemains(engine)
  const tags = new Set([...containers, ...networks].flatMap((name) => tagOf(name) ?? []))
  for (const tag of tags) if (isOfTheDead(tag)) await removeRemains(engine, tag)
}

/** At once: podman would ask it to end, and wait. */
export async function removeContainer(engine: Engine, name: string): Promise<void> {
  const own = engine.kind === 'podman' ? ['--time', '0'] : []
  await call(engine, ['rm', '--force', '--volumes', ...own, name])
}

export async function removeNetwork(engine: Engine, name: string): Promise<void> {
  await call(engine, ['network', 'rm', name])
}

/** Another one may be removing the same; who looks again sees what is left. */
async function attempt(work: () => Promise<void>): Promise<void> {
  await work().catch(() => undefined)
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '')
}
