// Creates an instance and prints the next steps.
import { defineSvcCommand, type SvcContext } from '../command.ts'
import type { CreatedInstance } from '../instance/create-instance.ts'

export const createCommands = [
  defineSvcCommand({
    usage: 'create <instance> [--product|-p <name>]',
    about: 'create an instance: data directory, .env with new keys, store and the group main; safe to repeat',
    example: 'create demo --product support',
    run: async (svc, { instance, product: name }) => {
      const [{ locateInstance }, { DEFAULT_PRODUCT, createInstance, mustFindProduct }] = [
        await import('../instance/instance.ts'),
        await import('../instance/create-instance.ts'),
      ]
      const location = locateInstance(instance, svc.io.environment)
      const product = await mustFindProduct(name ?? DEFAULT_PRODUCT)
      const created = await createInstance(location, product, svc.io)
      for (const warning of created.configured.warnings) svc.print.warn(warning)
      showCreated(svc, created)
      if (name !== undefined && created.product.name !== name)
        svc.print.warn(`--product is ignored: main already has the product ${created.product.name}`)
      showProduct(svc, created)
      showNext(svc, instance)
    },
  }),
]

function showCreated({ print }: SvcContext, { configured, written, hadEnv, isGroupNew }: CreatedInstance): void {
  const { name, layout } = configured
  print.line(
    isGroupNew ? `created instance ${name} at ${layout.root}` : `instance ${name} already exists at ${layout.root}`,
  )
  const changes = written.length > 0 ? `added ${written.join(', ')}` : 'unchanged'
  print.line(`  ${layout.env}: ${hadEnv ? changes : 'created with new keys'}`)
  print.line(`  group main: ${isGroupNew ? 'created with its directory and default tasks' : 'unchanged'}`)
}

/** Prints the checklist of the product; nothing enforces it. */
function showProduct({ print }: SvcContext, { configured, product }: CreatedInstance): void {
  const isSet = (key: string): boolean => configured.sources.some((source) => source.get(key))
  const width = Math.max(...product.env.map(({ key }) => key.length))
  print.line(`\nproduct ${product.name}: ${product.tagline}`)
  if (product.skills.length) print.line(`skills: ${product.skills.map((skill) => skill.name).join(', ')}`)
  if (product.env.length) print.line(`settings it uses, in ${configured.layout.env}:`)
  for (const { key, required, hint } of product.env) {
    const state = isSet(key) ? 'set' : required ? 'required' : 'optional'
    print.line(`  ${key.padEnd(width)}  ${state.padEnd(8)}  ${hint}`)
  }
}

function showNext({ print, showCommands }: SvcContext, instance: string): void {
  print.line('\nnext:')
  for (const line of [
    `svc group ${instance} grant <provider>:<id> '**'   # make yourself an operator`,
    `svc model ${instance}                              # set a real model instead of the built-in demo`,
    `svc token ${instance} issue chat main              # mint a link to talk to it`,
    `svc serve ${instance}                              # run it`,
  ])
    print.line(`  ${showCommands(line)}`)
}
