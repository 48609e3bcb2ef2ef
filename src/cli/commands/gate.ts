// Onboarding gates: how many new people a day may join the folders that match a glob.
import { onboardingGatesResource } from '../../resources/onboarding-gates.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'

const gates = onboardingGatesResource.verbs

export const gateCommands = [
  defineSvcCommand({
    usage: 'gate <instance> list [--json]',
    about: 'list all gates',
    example: 'gate demo list',
    run: async (svc) =>
      svc.print.table({
        rows: await svc.listAll(gates.list, 'onboarding_gates', {}),
        columns: {
          GATE: ({ spec }) => spec,
          'LIMIT/DAY': ({ daily_limit }) => daily_limit,
          ENABLED: ({ enabled }) => (enabled ? 'yes' : 'no'),
        },
        empty: 'no gates',
      }),
  }),
  defineSvcCommand({
    usage: 'gate <instance> add <spec> <limit>',
    about: 'admit up to <limit> new people a day to <spec>; an existing gate gets the new limit',
    example: "gate demo add 'team/**' 10/day",
    run: async (svc, { spec, limit }) => {
      const daily_limit = parseInteger('limit', limit.replace(/\/day$/, ''))
      await svc.call(gates.put, { spec, daily_limit })
      svc.print.line(`gate ${spec}: ${daily_limit}/day`)
    },
  }),
  defineSvcCommand({
    usage: 'gate <instance> rm <spec>',
    about: 'remove a gate',
    example: "gate demo rm 'team/**'",
    run: async (svc, { spec }) => {
      await svc.call(gates.delete, { spec })
      svc.print.line(`removed gate ${spec}`)
    },
  }),
  defineSvcCommand({
    usage: 'gate <instance> enable <spec>',
    about: 'enable a gate',
    example: "gate demo enable 'team/**'",
    run: (svc, { spec }) => setEnabled(svc, spec, true),
  }),
  defineSvcCommand({
    usage: 'gate <instance> disable <spec>',
    about: 'disable a gate without removing it',
    example: "gate demo disable 'team/**'",
    run: (svc, { spec }) => setEnabled(svc, spec, false),
  }),
]

async function setEnabled(svc: SvcContext, spec: string, enabled: boolean): Promise<void> {
  await svc.call(gates.update, { spec, enabled })
  svc.print.line(`${enabled ? 'enabled' : 'disabled'} gate ${spec}`)
}
