// Gates: how many newcomers a day may enter the folders that a glob names.
import { OnboardingGate, onboardingGates } from '../core/people/onboarding-gates.ts'
import { INSTANCE_SCOPE, requireTool } from '../registry/authorization.ts'
import { createVerb, listVerb, removeVerb, updateVerb } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const operators = requireTool(() => INSTANCE_SCOPE)
const gateNamed = ({ spec }: { spec: string }) => `gate ${spec}`

export const onboardingGatesResource = defineResource({
  of: onboardingGates,
  title: 'OnboardingGates',
  servedBy: 'onbod',
  exported: {},
  verbs: (table) => ({
    list: listVerb(table, 'onboarding_gates', {
      authorize: operators,
      order: [['spec', 'asc']],
      when: 'See how many newcomers each folder takes a day.',
    }),

    create: createVerb(table, {
      when: 'Open a gate for newcomers.',
      input: OnboardingGate.extend({ enabled: OnboardingGate.shape.enabled.default(true) }),
      authorize: operators,
      what: gateNamed,
    }),

    update: updateVerb(table, {
      when: "Change a gate's limit, or open and close it.",
      input: OnboardingGate.partial({ daily_limit: true, enabled: true }),
      authorize: operators,
      what: gateNamed,
    }),

    /** The command line's `add`: a gate that is there keeps its switch. */
    put: defineVerb({
      input: OnboardingGate.omit({ enabled: true }),
      authorize: operators,
      run: async (ctx, { spec, daily_limit }) => {
        const enabled = (await table.find(ctx.tx, { spec }))?.enabled ?? true
        await table.upsert(ctx.tx, { spec, daily_limit, enabled })
      },
    }),

    delete: removeVerb(table, {
      when: 'Remove a gate.',
      input: OnboardingGate.pick({ spec: true }),
      authorize: operators,
      what: gateNamed,
    }),
  }),
})
