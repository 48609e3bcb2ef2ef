// Gates: how many newcomers a day may enter the folders that a glob names.
import { Gate, onboardingGates } from '../core/onboarding-gates.ts'
import { refuse } from '../lib/refusal.ts'
import { list, mustFind } from '../registry/crud.ts'
import { granted, INSTANCE } from '../registry/needs.ts'
import { resource, verb } from '../registry/resource.ts'

const operators = granted(() => INSTANCE)

export const onboardingGatesResource = resource({
  of: onboardingGates,
  title: 'OnboardingGates',
  servedBy: 'onbod',
  exported: {},
  verbs: (table) => ({
    list: list(table, 'onboarding_gates', {
      needs: operators,
      order: [['spec', 'asc']],
      when: 'See how many newcomers each folder takes a day.',
    }),

    create: verb({
      http: 'POST /',
      status: 201,
      when: 'Open a gate for newcomers.',
      input: Gate.extend({ enabled: Gate.shape.enabled.default(true) }),
      output: Gate,
      needs: operators,
      run: async (ctx, gate) => {
        if (await table.find(ctx.tx, { spec: gate.spec })) refuse('conflict', `there is a gate ${gate.spec} already`)
        return table.add(ctx.tx, gate)
      },
    }),

    update: verb({
      http: 'PATCH /{spec}',
      when: "Change a gate's limit, or open and close it.",
      input: Gate.partial({ daily_limit: true, enabled: true }),
      output: Gate,
      needs: operators,
      run: async (ctx, { spec, ...patch }) => {
        await mustFind(ctx, table, { spec }, `gate ${spec}`)
        await table.update(ctx.tx, { spec }, patch)
        return mustFind(ctx, table, { spec }, `gate ${spec}`)
      },
    }),

    /** The command line's `add`: a gate that is there keeps its switch. */
    put: verb({
      input: Gate.omit({ enabled: true }),
      needs: operators,
      run: async (ctx, { spec, daily_limit }) => {
        const enabled = (await table.find(ctx.tx, { spec }))?.enabled ?? true
        await table.upsert(ctx.tx, { spec, daily_limit, enabled })
      },
    }),

    delete: verb({
      http: 'DELETE /{spec}',
      when: 'Remove a gate.',
      input: Gate.pick({ spec: true }),
      needs: operators,
      run: async (ctx, { spec }) => {
        if ((await table.remove(ctx.tx, { spec })) === 0) refuse('not_found', `there is no gate ${spec}`)
      },
    }),
  }),
})
