// Onboarding gates: how many newcomers per day may enter the folders that a glob matches.
import { OnboardingGate, onboardingGates } from '../core/people/onboarding-gates.ts'
import { requireInstanceTool } from '../registry/authorization.ts'
import { createVerb, listVerb, removeVerb, updateVerb } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const describeGate = ({ spec }: { spec: string }) => `gate ${spec}`

export const onboardingGatesResource = defineResource({
  of: onboardingGates,
  title: 'OnboardingGates',
  servedBy: 'onbod',
  exported: {},
  verbs: (table) => ({
    list: listVerb(table, 'onboarding_gates', {
      authorize: requireInstanceTool,
      order: [['spec', 'asc']],
      when: 'List the gates with the number of newcomers that each accepts per day.',
    }),

    create: createVerb(table, {
      when: 'Create a gate for newcomers.',
      input: OnboardingGate.extend({ enabled: OnboardingGate.shape.enabled.default(true) }),
      authorize: requireInstanceTool,
      label: describeGate,
    }),

    update: updateVerb(table, {
      when: 'Change the limit of a gate, or enable or disable it.',
      input: OnboardingGate.partial({ daily_limit: true, enabled: true }),
      authorize: requireInstanceTool,
      label: describeGate,
    }),

    /** `svc gate add`: an existing gate stays enabled or disabled. */
    put: defineVerb({
      input: OnboardingGate.omit({ enabled: true }),
      authorize: requireInstanceTool,
      run: async (ctx, { spec, daily_limit }) => {
        const enabled = (await table.find(ctx.tx, { spec }))?.enabled ?? true
        await table.upsert(ctx.tx, { spec, daily_limit, enabled })
      },
    }),

    delete: removeVerb(table, {
      when: 'Delete a gate.',
      input: OnboardingGate.pick({ spec: true }),
      authorize: requireInstanceTool,
      label: describeGate,
    }),
  }),
})
