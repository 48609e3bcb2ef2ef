// Explains rights: what a person, a role or an agent may do in a folder and why, and who may use a folder.
import { defineSvcCommand } from '../command.ts'

export const accessCommands = [
  defineSvcCommand({
    usage: 'access <instance> explain <principal> <folder> [--tool|-t <name>] [--json]',
    about:
      'show for each action and tool whether a person (github:42), a role (role:member) or an agent (folder:team) may use it in <folder>, and why; --tool shows one of them',
    example: 'access demo explain github:42 team --tool send',
    run: async (svc, { principal, folder, tool }) => {
      const { explain } = await accessVerbsOf()
      const { actions, tools } = await svc.call(explain, { principal, folder })
      const rows = [
        ...actions.map(({ action, ...rest }) => ({ ...rest, held: false, name: action })),
        ...tools.map(({ tool: name, ...rest }) => ({ ...rest, name })),
      ]
      svc.print.table({
        rows: tool === undefined ? rows : rows.filter(({ name }) => name === tool),
        columns: {
          ACTION: ({ name }) => name,
          ALLOWED: ({ allow, held }) => (held ? 'after approval' : allow ? 'yes' : 'no'),
          REASON: ({ reason }) => reason,
        },
        empty: `there is no tool ${tool ?? ''}`,
      })
    },
  }),
  defineSvcCommand({
    usage: 'access <instance> who <folder> [--json]',
    about: 'list who may administer or use a folder, and why',
    example: 'access demo who team',
    run: async (svc, { folder }) => {
      const { who } = await accessVerbsOf()
      svc.print.table({
        rows: await svc.listAll(who, 'people', { folder }),
        columns: {
          PRINCIPAL: ({ principal }) => principal,
          NAME: ({ name = '-' }) => name,
          MAY: ({ may }) => may,
          REASON: ({ reason }) => reason,
        },
        empty: `no person or agent may use ${folder}`,
      })
    },
  }),
]

/** Loads all tools. */
async function accessVerbsOf() {
  const [{ accessVerbs }, { agentTools }] = await Promise.all([
    import('../../faces/access-verbs.ts'),
    import('../../daemons/agents/agent-tools.ts'),
  ])
  return accessVerbs(agentTools().tools.values())
}
