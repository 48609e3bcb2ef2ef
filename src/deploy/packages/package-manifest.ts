// What a package consists of: package.toml (name, settings, routes, grants), services.yml (a compose fragment), files/ (which
// its services mount) and skills/. Everything else is refused, so that a misspelled name is noticed.
import { parse as parseToml, TomlError } from 'smol-toml'
import { z } from 'zod'
import { contentHash, PACKAGE_MARK, packageMark } from '../../core/groups/package-skills.ts'
import { PackageGrant, PackageName, PackageRoute, type PackageRows } from '../../core/packages/package-rows.ts'
import { checkedText, line, SecretKey } from '../../core/values.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import { FRAGMENT_NAME, type Fragment, parseFragment } from '../fragment.ts'
import type { PackageFile, PackageTree } from './package-tree.ts'

const MANIFEST = 'package.toml'
const FRAGMENT = 'services.yml'
const MANIFEST_MAX_BYTES = 65_536
const ROWS_MAX = 100
const SKILL_NAME = /^[a-z0-9][a-z0-9-]{0,63}$/

const PackageSetting = z.strictObject({
  key: SecretKey,
  required: z.boolean().default(false),
  hint: line(300),
})
export type PackageSetting = z.output<typeof PackageSetting>

const Manifest = z.strictObject({
  name: PackageName,
  about: line(200),
  settings: z.array(PackageSetting).max(ROWS_MAX).default([]),
  proxyd_routes: z.array(PackageRoute).max(ROWS_MAX).default([]),
  acl: z.array(PackageGrant).max(ROWS_MAX).default([]),
})

const SkillName = checkedText((value) =>
  SKILL_NAME.test(value) ? undefined : 'must be 1 to 64 of a-z, 0-9 and "-", and "-" not first',
)

export interface Package {
  readonly name: string
  readonly about: string
  readonly source: string
  readonly revision: string
  readonly settings: readonly PackageSetting[]
  readonly rows: PackageRows
  readonly fragment?: Fragment | undefined
  readonly skills: readonly string[]
  /** By path below the data directory. */
  readonly assets: ReadonlyMap<string, PackageFile>
}

export async function parsePackage({ source, revision, files }: PackageTree): Promise<Package> {
  const manifest = parseManifest(textOf(files, MANIFEST, source), `${MANIFEST} of ${source}`)
  const { name, about, proxyd_routes, acl } = manifest
  refuseRepeated(manifest, `${MANIFEST} of ${source}`)
  const fragment = files.has(FRAGMENT)
    ? await parseOwnFragment(textOf(files, FRAGMENT, source), name, source)
    : undefined
  const skills = new Set<string>()
  const assets = new Map<string, PackageFile>()
  for (const [path, file] of files) {
    if (path === MANIFEST) continue
    const [top = '', below = '', ...rest] = path.split('/')
    if (path === FRAGMENT) assets.set(`services/${name}.yml`, file)
    else if (top === 'files' && below !== '') assets.set(`services/${name}/${[below, ...rest].join('/')}`, file)
    else if (top === 'skills' && rest.length > 0) {
      parse(z.strictObject({ skill: SkillName }), { skill: below }, path)
      skills.add(below)
      assets.set(path, file)
    } else refuseUnknown(path, source)
  }
  for (const skill of skills) {
    if (!files.has(`skills/${skill}/SKILL.md`)) refuse('invalid', `${source}: skills/${skill} has no SKILL.md`)
    assets.set(`skills/${skill}/${PACKAGE_MARK}`, { data: Buffer.from(packageMark(name)), isExecutable: false })
  }
  const settings = withFragmentSettings(manifest.settings, fragment)
  mustBeUsed(files, fragment, source)
  if (assets.size === 0 && proxyd_routes.length === 0 && acl.length === 0)
    refuse('invalid', `${source} adds nothing: it has no services, skills, routes or grants`)
  const rows = { proxyd_routes, acl }
  return { name, about, source, revision, settings, rows, fragment, skills: [...skills].sort(), assets }
}

export function parseManifest(text: string, file: string): z.output<typeof Manifest> {
  try {
    return parse(Manifest, parseToml(text), file)
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const [reason = ''] = error.message.replace(/^Invalid TOML document: /, '').split('\n')
    return refuse('invalid', `${file} is not valid TOML: line ${error.line}, column ${error.column}: ${reason}`)
  }
}

/** Errors name the file of the package instead of the one that it becomes. */
async function parseOwnFragment(text: string, name: string, source: string): Promise<Fragment> {
  if (!FRAGMENT_NAME.test(name))
    refuse(
      'invalid',
      `${MANIFEST} of ${source}: a package with services has a name of lower-case letters, digits and "-", not ${name}`,
    )
  try {
    return await parseFragment(text, name)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const message = error.message.replace(`services/${name}.yml`, `${FRAGMENT} of ${source}`)
    throw new Refusal(error.code, message, error.hint)
  }
}

/** Hashes by path, as recorded. */
export function assetHashes({ assets }: Pick<Package, 'assets'>): Record<string, string> {
  const paths = [...assets.keys()].sort()
  return Object.fromEntries(paths.map((path) => [path, contentHash(assets.get(path)?.data ?? '')]))
}

function textOf(files: PackageTree['files'], path: string, source: string): string {
  const file = files.get(path)
  if (!file) refuse('invalid', `${source} is not a package: it has no ${path}`)
  if (file.data.length > MANIFEST_MAX_BYTES)
    refuse('too_large', `${path} of ${source} is larger than ${MANIFEST_MAX_BYTES} bytes`)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(file.data)
  } catch {
    return refuse('invalid', `${path} of ${source} is not UTF-8 text`)
  }
}

function refuseRepeated({ settings, proxyd_routes, acl }: z.output<typeof Manifest>, file: string): void {
  const named = [
    ...settings.map(({ key }) => `the setting ${key}`),
    ...proxyd_routes.map(({ path }) => `the route ${path}`),
    ...acl.map((grant) => `the grant ${JSON.stringify(grant)}`),
  ]
  const twice = named.find((name, at) => named.indexOf(name) !== at)
  if (twice !== undefined) refuse('invalid', `${file} has ${twice} twice`)
}

/** Settings of services that package.toml does not describe. */
function withFragmentSettings(described: readonly PackageSetting[], fragment?: Fragment): PackageSetting[] {
  const known = new Set(described.map(({ key }) => key))
  const others = (fragment?.settings ?? []).filter((key) => !known.has(key))
  return [...described, ...others.map((key) => ({ key, required: false, hint: 'used by its services' }))]
}

/** Each file is mounted by a service, and each mounted file exists. */
function mustBeUsed(files: PackageTree['files'], fragment: Fragment | undefined, source: string): void {
  const shipped = [...files.keys()].flatMap((path) => (path.startsWith('files/') ? [path.slice('files/'.length)] : []))
  const mounts = [...(fragment?.services.values() ?? [])].flatMap(({ volumes = [] }) =>
    volumes.flatMap(({ kind, source: mounted }) => (kind === 'file' ? [mounted] : [])),
  )
  const isBelow = (path: string, mount: string): boolean => path === mount || path.startsWith(`${mount}/`)
  const missing = mounts.find((mount) => !shipped.some((path) => isBelow(path, mount)))
  if (missing !== undefined)
    refuse('invalid', `${FRAGMENT} of ${source} mounts ./${missing}, but there is no files/${missing}`)
  const unused = shipped.find((path) => !mounts.some((mount) => isBelow(path, mount)))
  if (unused !== undefined)
    refuse('invalid', `${source}: no service mounts files/${unused}; mount it as ./${unused}:<path>:ro, or remove it`)
}

function refuseUnknown(path: string, source: string): never {
  refuse(
    'invalid',
    `${source}: unknown file ${JSON.stringify(path.slice(0, 200))}`,
    `a package has ${MANIFEST}, ${FRAGMENT}, files/… and skills/<name>/…; documents (*.md, LICENSE) and hidden files are ignored`,
  )
}
