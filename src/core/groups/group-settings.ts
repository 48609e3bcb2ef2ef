// Settings of a group that `svc group set` and `svc group get` read and write, one key at a time, as text.
import type { z } from 'zod'
import { refuse } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import type { Patch } from '../../store/table.ts'
import { folderBaseName } from '../access/tiers.ts'
import { IDENTITY_KEYS, type IdentityKey, isConfigKey, memberText, readObject, withMember } from './group-config.ts'
import { Group } from './groups.ts'

type Row = z.output<typeof Group>

export const GROUP_KEYS = [
  'name',
  ...IDENTITY_KEYS,
  'open',
  'observe_window_messages',
  'observe_window_chars',
  'max_children',
  'runtime',
  'model',
  'command',
  'permission_mode',
  'tools',
  'work_paths',
  'vision',
] as const
export type GroupKey = (typeof GROUP_KEYS)[number]

export function settingOf(group: Row, key: GroupKey): string | undefined {
  if (key === 'starters') return linesOf(readObject(group.config ?? '{}').starters)
  if (isConfigKey(key) || isIdentityKey(key) || key === 'tools' || key === 'work_paths' || key === 'vision')
    return memberText(group.config, key)
  if (key === 'max_children') return memberText(group.container_config, key)
  const value = group[key]
  return value === undefined ? undefined : String(value)
}

function isIdentityKey(key: GroupKey): key is IdentityKey {
  return IDENTITY_KEYS.some((each) => each === key)
}

/** As a person would type it. */
function linesOf(list: unknown): string | undefined {
  return Array.isArray(list) ? list.join('\n') : undefined
}

/** `text` undefined removes the setting; a required column then gets its default. */
export function changeSetting(
  group: Row,
  key: GroupKey,
  text: string | undefined,
): { patch: Patch<Row>; changed: Row } {
  const patch = patchOf(group, key, text)
  return { patch, changed: parse(Group, { ...group, ...patch }) }
}

function patchOf(group: Row, key: GroupKey, text: string | undefined): Patch<Row> {
  if (isConfigKey(key)) return { config: withMember(group.config, key, key === 'command' ? parseCommand(text) : text) }
  switch (key) {
    case 'name':
      return { name: text ?? folderBaseName(group.folder) }
    case 'open':
      if (text !== undefined && text !== 'true' && text !== 'false') refuse('invalid', 'open must be true or false')
      return { open: text !== 'false' }
    case 'tools':
      return { config: withMember(group.config, key, parseNames(text)) }
    case 'vision':
    case 'picture':
    case 'colour':
    case 'greeting':
      return { config: withMember(group.config, key, text) }
    case 'starters':
      return { config: withMember(group.config, key, parseLines(text)) }
    case 'work_paths':
      return { config: withMember(group.config, key, parseDirectories(text)) }
    case 'max_children':
      return { container_config: withMember(group.container_config, key, parseCount(key, text)) }
    case 'observe_window_messages':
    case 'observe_window_chars':
      return { [key]: parseCount(key, text) }
  }
}

/** A shell command line, or a JSON array of a program and its arguments. */
function parseCommand(text: string | undefined): unknown {
  if (!text?.trimStart().startsWith('[')) return text
  const list = tryParseJson(text)
  const isProgram = Array.isArray(list) && list.length > 0 && list.every((part) => typeof part === 'string')
  return isProgram ? list : refuse('invalid', 'command must be a shell command line or a JSON array of strings')
}

/** Names separated by commas or blanks, or a JSON array. The row's schema checks each name. */
function parseNames(text: string | undefined): unknown {
  if (text === undefined) return undefined
  return text.trimStart().startsWith('[') ? (tryParseJson(text) ?? text) : text.split(/[\s,]+/).filter(Boolean)
}

/** One entry in each line, or a JSON array. The row's schema checks them. */
function parseLines(text: string | undefined): unknown {
  if (text === undefined) return undefined
  const lines = text.split('\n').flatMap((line) => line.trim() || [])
  return text.trimStart().startsWith('[') ? (tryParseJson(text) ?? lines) : lines
}

/** Directories separated by commas, with or without a slash at the end, or a JSON array. The row's schema checks each name. */
function parseDirectories(text: string | undefined): unknown {
  if (text === undefined) return undefined
  if (text.trimStart().startsWith('[')) return tryParseJson(text) ?? text
  return text.split(',').flatMap((path) => path.trim().replace(/\/$/, '') || [])
}

function parseCount(key: GroupKey, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  return /^\d{1,9}$/.test(text) ? Number(text) : refuse('invalid', `${key} must be a whole number, 0 or more`)
}
