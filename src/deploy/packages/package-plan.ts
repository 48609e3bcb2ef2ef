// Describes a change of a package line by line, for the operator who has to agree to it.
import {
  describeGrant,
  describeRoute,
  NO_ROWS,
  type PackageRows,
  readRecordedRows,
} from '../../core/packages/package-rows.ts'
import type { SettingSource } from '../../lib/settings.ts'
import type { InstalledPackageRow } from './package-change.ts'
import { assetHashes, type Package, type PackageSetting } from './package-manifest.ts'

/** `+` is added, `~` replaced and `-` removed. */
export interface PlanLine {
  readonly mark: '+' | '~' | '-'
  readonly text: string
}

interface PackageParts {
  readonly hashes: Readonly<Record<string, string>>
  readonly rows: PackageRows
  readonly services: readonly string[]
  readonly hosts: readonly string[]
  readonly skills: readonly string[]
}

function partsOf(added: Package | undefined): PackageParts {
  const { rows = NO_ROWS, fragment, skills = [] } = added ?? {}
  const services = [...(fragment?.services ?? [])].map(([name, { image }]) => `service ${name} (${image})`)
  const hosts = (fragment?.hosts ?? []).map((host) => `host ${host}`)
  return { hashes: added ? assetHashes(added) : {}, rows, services, hosts, skills: skills.map(describeSkill) }
}

/** The images of services are not recorded. */
function recordedPartsOf(row: InstalledPackageRow | undefined): PackageParts {
  const { services = [], hosts = [], skills = [] } = row?.manifest ?? {}
  return {
    hashes: row?.asset_hashes ?? {},
    rows: row ? readRecordedRows(row.manifest) : NO_ROWS,
    services: services.map((name) => `service ${name}`),
    hosts: hosts.map((host) => `host ${host}`),
    skills: skills.map(describeSkill),
  }
}

function describeSkill(name: string): string {
  return `skill ${name} in every workspace`
}

/** What a change writes and removes. `added` is absent for a removal, `installed` for an install. */
export function planChange(added: Package | undefined, installed: InstalledPackageRow | undefined): PlanLine[] {
  const [before, after] = [recordedPartsOf(installed), partsOf(added)]
  return [...fileLines(before.hashes, after.hashes), ...listLines(linesOf(before), linesOf(after))]
}

function fileLines(before: PackageParts['hashes'], after: PackageParts['hashes']): PlanLine[] {
  const paths = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()
  return paths.flatMap((path): PlanLine[] => {
    const [old, now] = [before[path], after[path]]
    if (old === now) return []
    return [{ mark: old === undefined ? '+' : now === undefined ? '-' : '~', text: `file ${path}` }]
  })
}

function linesOf({ rows, services, hosts, skills }: PackageParts): string[] {
  return [...services, ...hosts, ...rows.proxyd_routes.map(describeRoute), ...rows.acl.map(describeGrant), ...skills]
}

function listLines(before: readonly string[], after: readonly string[]): PlanLine[] {
  const isIn = (list: readonly string[], text: string): boolean =>
    list.some((other) => other === text || other.startsWith(`${text} (`) || text.startsWith(`${other} (`))
  return [
    ...before.filter((text) => !isIn(after, text)).map((text) => ({ mark: '-', text }) as const),
    ...after.filter((text) => !isIn(before, text)).map((text) => ({ mark: '+', text }) as const),
  ]
}

export interface NeededSetting extends PackageSetting {
  readonly isSet: boolean
}

export function neededSettings({ settings }: Package, sources: readonly SettingSource[]): NeededSetting[] {
  return settings.map((setting) => ({ ...setting, isSet: sources.some((source) => source.get(setting.key)) }))
}
