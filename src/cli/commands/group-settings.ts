// Shows and changes the settings of a group. Budgets have their own command.
import { GROUP_KEYS, type GroupKey, settingOf } from '../../core/groups/group-settings.ts'
import { cell } from '../../lib/command-line/print.ts'
import { refuse } from '../../lib/refusal.ts'
import { nearest } from '../../lib/text/nearest-word.ts'
import { groupsResource } from '../../resources/groups.ts'
import { RUNTIME_NAMES } from '../../runtimes/settings.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { formatCents } from '../output/text-format.ts'

const groups = groupsResource.verbs

export const groupSettingCommands = [
  defineSvcCommand({
    usage: 'group <instance> show <folder> [--json]',
    about: 'show the settings of a group; those that are not set come from the instance',
    example: 'group demo show main',
    run: async (svc, { folder }) => {
      const group = await svc.call(groups.show, { folder })
      const { product, cost_cap_cents_per_day: cap, added_at, updated_at } = group
      svc.print.record(
        {
          folder,
          product,
          ...Object.fromEntries(GROUP_KEYS.map((key) => [key, settingOf(group, key) ?? '(not set)'])),
          budget: cap === undefined ? 'none' : `${formatCents(cap)} a day`,
          added_at,
          ...(updated_at === undefined ? {} : { updated_at }),
        },
        group,
      )
    },
  }),
  defineSvcCommand({
    usage: 'group <instance> set <folder> <key> [<value>] [--unset]',
    about: `change one setting of a group from its next turn on; an empty value or --unset removes it; keys: ${GROUP_KEYS.join(', ')}; runtimes: ${RUNTIME_NAMES.join(', ')}`,
    example: 'group demo set main runtime openai',
    run: async (svc, { folder, key, value, unset }) =>
      set(svc, { folder, key: mustBeKnown('key', key, GROUP_KEYS), value, unset }),
  }),
]

interface SetGroupArguments {
  readonly folder: string
  readonly key: GroupKey
  readonly value: string | undefined
  readonly unset: boolean
}

async function set(svc: SvcContext, { folder, key, value, unset }: SetGroupArguments): Promise<void> {
  if (unset && value !== undefined) refuse('invalid', 'give a value or --unset, not both')
  if (!unset && value === undefined) refuse('invalid', '<value> is missing', `--unset removes ${key}`)
  // A manifest accepts any runtime name, but the turns of the group would fail.
  if (key === 'runtime' && value) mustBeKnown('runtime', value, RUNTIME_NAMES)
  const { before, after } = await svc.call(groups.set, { folder, key, ...(value === undefined ? {} : { to: value }) })
  const format = (text: string | undefined): string => (text === undefined ? '(not set)' : cell(text))
  svc.print.line(
    before === after
      ? `${key} of ${folder} is already ${format(before)}; nothing changed`
      : `${key} of ${folder}: ${format(before)} -> ${format(after)}`,
  )
}

function mustBeKnown<T extends string>(kind: string, typed: string, names: readonly T[]): T {
  const known = names.find((name) => name === typed)
  if (known !== undefined) return known
  const meant = nearest(typed, names)
  const suggestion = meant === undefined ? '' : `; did you mean ${meant}?`
  const message = `unknown ${kind} ${JSON.stringify(typed.slice(0, 40))}${suggestion}`
  return refuse('invalid', message, `${kind}s are ${names.join(', ')}`)
}
