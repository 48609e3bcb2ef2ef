// What can be changed of a group that is there, one key at a time, as it is typed.
import type { z } from 'zod'
import { tryJson } from '../lib/json.ts'
import { parse } from '../lib/parse.ts'
import { refuse } from '../lib/refusal.ts'
import type { Patch } from '../store/table.ts'
import { isConfigKey, memberText, withMember } from './group-config.ts'
import { Group } from './groups.ts'
import { nameOf } from './tiers.ts'

type Row = z.output<typeof Group>

export const GROUP_KEYS = [
  'name',
  'open',
  'observe_window_messages',
  'observe_window_chars',
  'max_children',
  'runtime',
  'model',
  'command',
  'permission_mode',
  'tools',
] as const
export type GroupKey = (typeof GROUP_KEYS)[number]

/** The value of a key as it would be typed; nothing where it is not set. */
export function settingOf(group: Row, key: GroupKey): string | undefined {
  if (isConfigKey(key)) return memberText(group.config, key)
  if (key === 'tools') return memberText(group.config, key)
  if (key === 'max_children') return memberText(group.container_config, key)
  const value = group[key]
  return value === undefined ? undefined : String(value)
}

/** What changes in the row, and the row then. No text takes the key away; what the row must have gets its default. */
export function changeSetting(
  group: Row,
  key: GroupKey,
  text: string | undefined,
): { patch: Patch<Row>; changed: Row } {
  const patch = patchOf(group, key, text)
  return { patch, changed: parse(Group, { ...group, ...patch }) }
}

function patchOf(group: Row, key: GroupKey, text: string | undefined): Patch<Row> {
  if (isConfigKey(key)) return { config: withMember(group.config, key, key === 'command' ? commandOf(text) : text) }
  switch (key) {
    case 'name':
      return { name: text ?? nameOf(group.folder) }
    case 'open':
      if (text !== undefined && text !== 'true' && text !== 'false') refuse('invalid', 'open must be true or false')
      return { open: text !== 'false' }
    case 'tools':
      return { config: withMember(group.config, key, namesOf(text)) }
    case 'max_children':
      return { container_config: withMember(group.container_config, key, countOf(key, text)) }
    case 'observe_window_messages':
    case 'observe_window_chars':
      return { [key]: countOf(key, text) }
  }
}

/** A line for a shell, or a JSON array of a program and its arguments. */
function commandOf(text: string | undefined): unknown {
  if (!text?.trimStart().startsWith('[')) return text
  const list = tryJson(text)
  const isProgram = Array.isArray(list) && list.length > 0 && list.every((part) => typeof part === 'string')
  return isProgram ? list : refuse('invalid', 'command must be a line for a shell, or a JSON array of texts')
}

/** Names with commas or blanks between them, or a JSON array. The row's schema checks each name. */
function namesOf(text: string | undefined): unknown {
  if (text === undefined) return undefined
  return text.trimStart().startsWith('[') ? (tryJson(text) ?? text) : text.split(/[\s,]+/).filter(Boolean)
}

function countOf(key: GroupKey, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  return /^\d{1,9}$/.test(text) ? Number(text) : refuse('invalid', `${key} must be a whole number, 0 or more`)
}
