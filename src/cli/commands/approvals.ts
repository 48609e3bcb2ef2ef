// Tool calls that wait for an approval.
import { pendingActionsResource } from '../../resources/pending-actions.ts'
import { defineSvcCommand } from '../command.ts'

const approvals = pendingActionsResource.verbs

export const approvalsCommands = [
  defineSvcCommand({
    usage: 'approvals <instance> list [--json]',
    about: 'list the tool calls that wait for an approval, and the last decisions',
    example: 'approvals demo list',
    run: async (svc) => {
      const { held, decided } = await svc.call(approvals.list, {})
      svc.print.table({
        rows: [...held, ...decided],
        columns: {
          ID: ({ id }) => id,
          STATUS: ({ status }) => status,
          FOLDER: ({ folder }) => folder,
          TOOL: ({ tool }) => tool,
          ARGUMENTS: ({ summary }) => summary,
          'HELD AT': ({ held_at }) => held_at,
          'DECIDED BY': ({ decided_by = '-' }) => decided_by,
        },
        empty: 'no tool call waits for an approval',
      })
    },
  }),
  defineSvcCommand({
    usage: 'approvals <instance> approve <id>',
    about: 'approve a held call: the agent is told to repeat it, once, with the same arguments',
    example: 'approvals demo approve 1f0c88ab',
    run: async (svc, { id }) => {
      const { tool, folder } = await svc.call(approvals.decide, { id, decision: 'approve' })
      svc.print.line(`approved ${tool} by ${folder}`)
    },
  }),
  defineSvcCommand({
    usage: 'approvals <instance> reject <id>',
    about: 'reject a held call: the agent is told not to repeat it',
    example: 'approvals demo reject 1f0c88ab',
    run: async (svc, { id }) => {
      const { tool, folder } = await svc.call(approvals.decide, { id, decision: 'reject' })
      svc.print.line(`rejected ${tool} by ${folder}`)
    },
  }),
]
