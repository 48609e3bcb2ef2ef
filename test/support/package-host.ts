// An instance whose packages are changed without the command line.
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { acl } from '../../src/core/access/acl.ts'
import { setUpFolder } from '../../src/core/groups/products.ts'
import { proxydRoutes } from '../../src/core/links/proxyd-routes.ts'
import {
  applyPackage,
  mustFindInstalled,
  type PackageInstance,
  removePackage,
} from '../../src/deploy/packages/package-change.ts'
import { readPackageDirectory } from '../../src/deploy/packages/package-directory.ts'
import { type Package, parsePackage } from '../../src/deploy/packages/package-manifest.ts'
import { groupsResource } from '../../src/resources/groups.ts'
import { installedPackagesResource } from '../../src/resources/installed-packages.ts'
import { type EngineName, type TestHost, testHost } from './host.ts'
import { type FileTexts, listTree, PACKAGE, packageDir } from './package-files.ts'

/** Another revision of `PACKAGE`: other texts, another skill, and without the files. */
export const CHANGED_PACKAGE: FileTexts = {
  'package.toml': (PACKAGE['package.toml'] ?? '')
    .replace('http://gate:4000', 'http://gate:5000')
    .replace('mcp:send', 'mcp:reply'),
  'services.yml': (PACKAGE['services.yml'] ?? '').replace('1.2', '1.3').replace(/ {4}volumes.*\n/, ''),
  'skills/summary/SKILL.md': '# A better summary\n',
  'skills/review/SKILL.md': '# Review\n',
}

export interface PackageHost {
  readonly on: TestHost
  readonly instance: PackageInstance
  readonly root: string
  load(files?: FileTexts): Promise<Package>
  install(added: Package): Promise<string[]>
  upgrade(added: Package, force?: boolean): Promise<string[]>
  remove(force?: boolean): Promise<string[]>
  /** Every file and every row that a package may change. */
  state(): Promise<unknown>
}

export async function packageHost(
  t: TestContext,
  engine: EngineName,
  folders: readonly string[] = ['main', 'team'],
): Promise<PackageHost> {
  const on = await testHost(t, engine)
  const { host, cli } = on
  const { layout } = host
  assert.ok(layout)
  mkdirSync(layout.packageSkills)
  for (const folder of folders) {
    await cli.call(groupsResource.verbs.add, { folder })
    await setUpFolder(layout, folder)
  }
  const instance: PackageInstance = { layout, host, call: cli.call }
  const installed = () => mustFindInstalled(instance, 'gate')
  return {
    on,
    instance,
    root: layout.root,
    load: async (files = PACKAGE) => {
      const dir = packageDir(t, files)
      return { ...(await parsePackage(await readPackageDirectory(dir, dir))), source: '/the/source' }
    },
    install: (added) => applyPackage(instance, added, { force: false }),
    upgrade: async (added, force = false) => applyPackage(instance, added, { installed: await installed(), force }),
    remove: async (force = false) => removePackage(instance, await installed(), { force }),
    state: async () => {
      const rows = await host.engine.read(async (tx) => ({
        acl: await acl.list(tx),
        routes: await proxydRoutes.list(tx),
        installed: await installedPackagesResource.table.list(tx),
      }))
      return { files: listTree(layout.root), rows }
    },
  }
}
