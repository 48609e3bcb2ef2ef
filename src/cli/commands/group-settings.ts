// What a group is set to, and how one setting of it is changed. Budgets have their own command.
import { GROUP_KEYS, type GroupKey, settingOf } from '../../core/groups/group-settings.ts'
import { cell } from '../../lib/command-line/print.ts'
import { refuse } from '../../lib/refusal.ts'
import { nearest } from '../../lib/text/nearest-word.ts'
import { groupsResource } from '../../resources/groups.ts'
import { RUNTIME_NAMES } from '../../runtimes/settings.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'

const groups = groupsResource.verbs

export const groupSettingCommands = [
  defineSvcCommand({
    usage: 'group <instance> show <folder> [--json]',
    about: 'show what a group is set to; what is not set holds as the instance says',
    example: 'group demo show main',
    run: async (svc, { folder }) => {
      const group = await svc.call(groups.show, { folder })
      const { product, cost_cap_cents_per_day: cap, added_at, updated_at } = group
      svc.print.record(
        {
          folder,
          product,
          ...Object.fromEntries(GROUP_KEYS.map((key) => [key, settingOf(group, key) ?? '(not set)'])),
          budget: cap === undefined ? 'none' : `${cap} cents a day`,
          added_at,
          ...(updated_at === undefined ? {} : { updated_at }),
        },
        group,
      )
    },
  }),
  defineSvcCommand({
    usage: 'group <instance> set <folder> <key> [<value>] [--unset]',
    about: `change one setting of a group, from its next turn on; an empty value or --unset takes it away; keys: ${GROUP_KEYS.join(', ')}; runtimes: ${RUNTIME_NAMES.join(', ')}`,
    example: 'group demo set main runtime openai',
    run: async (svc, { folder, key, value, unset }) => set(svc, { folder, key: keyOf(key), value, unset }),
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
  if (!unset && value === undefined) refuse('invalid', '<value> is missing', `--unset takes ${key} away`)
  if (key === 'runtime' && value) mustBeRuntime(value)
  const { before, after } = await svc.call(groups.set, { folder, key, ...(value === undefined ? {} : { to: value }) })
  const shown = (text: string | undefined): string => (text === undefined ? '(not set)' : cell(text))
  svc.print.line(
    before === after
      ? `${key} of ${folder} is ${shown(before)} already; nothing changed`
      : `${key} of ${folder}: ${shown(before)} -> ${shown(after)}`,
  )
}

function keyOf(typed: string): GroupKey {
  const known = GROUP_KEYS.find((key) => key === typed)
  if (known) return known
  const meant = nearest(typed, GROUP_KEYS)
  const sentence = `unknown key ${JSON.stringify(typed.slice(0, 40))}`
  return refuse(
    'invalid',
    meant === undefined ? sentence : `${sentence}; did you mean ${meant}?`,
    `keys are ${GROUP_KEYS.join(', ')}`,
  )
}

/** A manifest takes any name, and the turns of the group then fail. */
function mustBeRuntime(typed: string): void {
  if (RUNTIME_NAMES.some((name) => name === typed)) return
  const meant = nearest(typed, RUNTIME_NAMES)
  const sentence = `unknown runtime ${JSON.stringify(typed.slice(0, 40))}`
  refuse(
    'invalid',
    meant === undefined ? sentence : `${sentence}; did you mean ${meant}?`,
    `runtimes are ${RUNTIME_NAMES.join(', ')}`,
  )
}
