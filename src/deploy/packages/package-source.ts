// Where a package comes from: a directory, a git URL or the catalog that ships with svc. A bare name is never looked up on the
// network.
import { readdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PackageName } from '../../core/packages/package-rows.ts'
import { refuseDisk } from '../../lib/files/atomic-file.ts'
import { refuse } from '../../lib/refusal.ts'
import { type FetchOptions, type GitSource, readGitPackage } from './git-package.ts'
import { readPackageDirectory } from './package-directory.ts'
import type { PackageTree } from './package-tree.ts'

/** The path is the same from `src/deploy/packages` and from `dist/deploy/packages`. */
export const bundledPackages = fileURLToPath(new URL('../../../packages', import.meta.url))

const BUNDLED = 'bundled:'
const SOURCE_MAX = 1024
const SCP = /^git@[A-Za-z0-9][A-Za-z0-9.-]*:[A-Za-z0-9_~/][A-Za-z0-9_.~/+-]*$/
/** No "..", no leading "-" and none of the characters with a meaning in a refspec. */
const REF = /^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}$/

export type PackageSource =
  | { readonly kind: 'bundled'; readonly name: string; readonly source: string }
  | { readonly kind: 'directory'; readonly path: string; readonly source: string }
  | ({ readonly kind: 'git' } & GitSource)

/** Also reads sources as they are recorded. */
export function parsePackageSource(text: string): PackageSource {
  const shown = JSON.stringify(text.slice(0, 200))
  if (text === '' || text.length > SOURCE_MAX || /[\u0000-\u001f\u007f]/.test(text))
    refuse('invalid', `a source is 1 to ${SOURCE_MAX} characters without control characters`)
  if (text.startsWith('-'))
    refuse('invalid', `the source ${shown} must not begin with "-"`, 'write a directory as ./-x')
  if (text.startsWith(BUNDLED)) return bundledSource(text.slice(BUNDLED.length))
  const isMarked = text.startsWith('git+')
  const [address = '', ref, ...more] = (isMarked ? text.slice('git+'.length) : text).split('#')
  const isUrl = /^[A-Za-z][A-Za-z0-9+.-]*:\/\//.test(address)
  if (!isMarked && !isUrl && !address.startsWith('git@')) return directorySource(text)
  if (ref !== undefined && (more.length > 0 || !REF.test(ref)))
    refuse('invalid', `the source ${shown}: what follows "#" must be a branch, a tag or a commit`)
  const fault = SCP.test(address) ? undefined : urlFault(address, isMarked)
  if (fault) refuse('invalid', `the source ${shown} ${fault}`)
  return { kind: 'git', url: address, source: text, ...(ref === undefined ? {} : { ref }) }
}

export function bundledSource(name: string): PackageSource {
  if (!PackageName.safeParse(name).success)
    refuse('invalid', `${JSON.stringify(name.slice(0, 100))} is not the name of a package`)
  return { kind: 'bundled', name, source: `${BUNDLED}${name}` }
}

function directorySource(text: string): PackageSource {
  const path = resolve(text)
  return { kind: 'directory', path, source: path }
}

function urlFault(address: string, isMarked: boolean): string | undefined {
  const url = URL.parse(address)
  if (!url || address.includes('\\') || /\s/.test(address)) return 'is not a git URL'
  if (!['https:', 'ssh:', 'file:'].includes(url.protocol))
    return `uses ${url.protocol}//, which is not allowed; use https://, ssh:// or file://`
  if (url.password || (url.username && url.protocol !== 'ssh:'))
    return 'contains a password or user name, and sources are recorded; use ssh, or a directory'
  if (url.host.startsWith('-') || url.username.startsWith('-')) return 'is not a git URL'
  if (url.protocol === 'https:' && !isMarked && !url.pathname.endsWith('.git'))
    return 'does not end in .git; put git+ before it if it is a git repository'
  return undefined
}

/** Names of the packages that ship with svc. */
export async function listBundledPackages(root = bundledPackages): Promise<string[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch((error) => refuseDisk(error, 'read', root))
  return entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort()
}

export async function readPackage(source: PackageSource, options: FetchOptions = {}): Promise<PackageTree> {
  if (source.kind === 'git') return readGitPackage(source, options)
  if (source.kind === 'directory') {
    return await readPackageDirectory(source.path, source.source)
  }
  const names = await listBundledPackages()
  if (!names.includes(source.name))
    refuse(
      'not_found',
      `there is no bundled package ${source.name}; there is: ${names.join(', ')}`,
      'svc packages <instance> install takes a directory or a git URL',
    )
  return readPackageDirectory(resolve(bundledPackages, source.name), source.source)
}
