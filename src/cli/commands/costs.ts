// Reports on costs.
import type { SPEND_GROUPS } from '../../core/turns/spend.ts'
import { costLogResource } from '../../resources/cost-log.ts'
import { defineSvcCommand } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'

export const costsCommands = [
  defineSvcCommand({
    usage: 'costs <instance> [<folder>] [--by|-b <what>] [--days|-d <n>] [--json]',
    about: 'sum the costs of the last days (30, in UTC) by day, folder, model or user_sub',
    example: 'costs demo --by model --days 7',
    run: async (svc, { folder, by = 'day', days }) => {
      const { spend } = await svc.call(costLogResource.verbs.spend, {
        // The verb checks it.
        by: by as (typeof SPEND_GROUPS)[number],
        folder,
        ...(days === undefined ? {} : { days: parseInteger('--days', days) }),
      })
      svc.print.table({
        rows: spend,
        columns: {
          [by.toUpperCase()]: ({ name }) => name || '-',
          CENTS: ({ cents }) => cents,
          TURNS: ({ turns }) => turns,
          INPUT: ({ input_tokens }) => input_tokens,
          OUTPUT: ({ output_tokens }) => output_tokens,
        },
        empty: 'no costs',
      })
    },
  }),
]
