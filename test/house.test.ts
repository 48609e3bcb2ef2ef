// The rules of the code base that can be checked automatically. Each rule takes a tree of files and returns the violations, so
// that it can be tested with example trees.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { suite, test } from 'node:test'

const ROOT = dirname(import.meta.dirname)

/** The folders of src and the folders that each may import. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  lib: [],
  store: ['lib'],
  core: ['lib', 'store'],
  registry: ['lib', 'store', 'core'],
  permissions: ['lib', 'store', 'core', 'registry'],
  resources: ['lib', 'store', 'core', 'registry', 'permissions'],
  tools: ['lib', 'store', 'core', 'registry', 'permissions'],
  faces: ['lib', 'store', 'core', 'registry'],
  channels: ['lib', 'core'],
  cell: ['lib', 'core'],
  'agent-socket': ['lib', 'store', 'core', 'registry', 'faces'],
  runtimes: ['lib', 'core', 'cell'],
  web: ['lib'],
  egress: ['lib'],
  daemons: [
    ...['lib', 'store', 'core', 'registry', 'permissions', 'resources', 'tools', 'faces', 'channels'],
    ...['agent-socket', 'cell', 'egress', 'runtimes', 'web'],
  ],
  cli: ['lib', 'store', 'core', 'registry', 'resources', 'tools', 'faces', 'cell', 'runtimes', 'daemons'],
}

/** Each list, and the files that it must contain. */
const LISTS: Record<string, RegExp> = {
  'src/store/index.ts': /^src\/store\/[^/]+\/engine\.ts$/,
  'src/resources/index.ts': /^src\/resources\/[^/]+\.ts$/,
  'src/tools/index.ts': /^src\/tools\/[^/]+\.ts$/,
  'src/daemons/index.ts': /^src\/daemons\/[^/]+\/daemon\.ts$/,
  'src/cli/commands/index.ts': /^src\/cli\/commands\/[^/]+\.ts$/,
  'src/egress/commands/index.ts': /^src\/egress\/commands\/[^/]+\.ts$/,
}

/** Lists of plug-ins by folder name, by which they are loaded. `channels/http` is the channel of every adapter. */
const FOLDER_LISTS: Record<string, RegExp> = {
  'src/core/delivery/platforms.ts': /^src\/channels\/(?!http\/)([^/]+)\/adapter\.ts$/,
  'src/runtimes/settings.ts': /^src\/runtimes\/([^/]+)\/runtime\.ts$/,
}

const MAY_IMPORT_LISTS = ['daemons', 'cli', 'egress']
/** The entry file of a plug-in; everything in its folder belongs to it. */
const PLUG = /^(src\/(?:store|channels|runtimes|daemons)\/[^/]+\/)(?:engine|adapter|runtime|daemon)\.ts$/
const ONLY_IN_STORE = ['pg']
const ENVIRONMENT_READER = 'src/lib/settings.ts'
/** File names that end with these words attract unrelated code. */
const EMPTY_NOUN = /^(utils?|helpers?|common|misc|managers?|services?|handlers?|base|impl|data|info)$/

/** Functions of node:fs that can create, change or delete a file by its path; `open` can create one. */
const FILE_WRITERS = new Set(
  [
    ...['appendFile', 'chmod', 'chown', 'copyFile', 'cp', 'lchmod', 'lchown', 'link', 'lutimes', 'mkdir', 'mkdtemp'],
    ...['mkdtempDisposable', 'open', 'rename', 'rm', 'rmdir', 'symlink', 'truncate', 'unlink', 'utimes', 'writeFile'],
  ]
    .flatMap((name) => [name, `${name}Sync`])
    .concat('createWriteStream', 'WriteStream', 'promises', 'default'),
)

/** The module that writes to workspaces, and files that write only where agents cannot. */
const MAY_WRITE_FILES: Record<string, string> = {
  'src/lib/files/directory.ts': 'the only module that writes to workspaces',
  'src/lib/files/directory-sync.ts': 'reads below a workspace, with openSync',
  'src/lib/files/process-directory.ts': 'temporary directories of this process',
  'src/lib/files/atomic-file.ts': '.env, manifests and egress state',
  'src/core/delivery/staged-files.ts': 'copies of files that are being sent, in <data>/outbox',
  'src/store/sqlite/store-file.ts': 'the store',
  'src/store/sqlite/wal-sync.ts': 'syncs the write-ahead log of the store',
  'src/store/sqlite/snapshot.ts': 'the private copy of the store that a backup reads',
  'src/store/sqlite/load.ts': 'the store that a backup is restored to',
  'src/cli/backup/archive-file.ts': 'the file of a backup',
  'src/cli/backup/restore-directory.ts': 'a new data directory that no process uses yet',
  'src/store/search/full-text-file.ts': 'the search index',
  'src/store/migrate.ts': 'the copy of the store before a migration',
  'src/egress/policy/state-file.ts': 'the state of the egress proxy',
  'src/egress/container/seccomp.ts': 'the seccomp profile of one run, in a temporary directory',
  'src/cell/bubblewrap/mount-view.ts': 'a temporary directory to mount on',
  'src/cell/bubblewrap/anonymous-file.ts': 'a temporary file without a name',
  'src/daemons/process/presence.ts': 'the socket of a process that serves, in <data>/ipc',
  'src/agent-socket/run-socket.ts': 'the sockets of runs, in a temporary directory',
  'src/runtimes/mcp-config.ts': 'a temporary directory of one run',
  'src/runtimes/openai/transcript.ts': 'runs inside the cell, as the agent',
  'src/daemons/process/speech-synthesis.ts': 'spoken texts, in <data>/speech',
  'src/daemons/gated/folder-sockets.ts': 'the sockets, in <data>/ipc',
  'src/daemons/gated/folder-socket.ts': 'the sockets, in <data>/ipc',
  'src/daemons/proxyd/published-files.ts': 'reads published pages, with open',
  'src/cli/instance/create-instance.ts': 'the data directory and its .env',
}

/** Files that parse JSON directly: it is our own, or the process serves no other client. */
const MAY_PARSE_JSON: Record<string, string> = {
  'src/registry/audit.ts': 'its own summaries',
  'src/egress/container/command-check.ts': 'output of the container engine of this machine',
  'src/lib/text/json.ts': 'the only module that parses untrusted JSON',
  'src/store/table.ts': 'columns of the store',
  'src/store/backup-rows.ts': 'rows of a backup whose checksums were verified, in the command line',
  'src/core/access/bearers.ts': 'signing keys in the store',
  'src/core/delivery/delivery.ts': 'rows of the outbox',
  'src/core/secrets/signing-key-cache.ts': 'signing keys in the store',
  'src/core/prompt/prompt-rows.ts': 'attachments in the store, which were validated on arrival',
  'src/core/search/search-feed.ts': 'the mark in the search index',
  'src/tools/register-group.ts': 'the config of a group, which was validated when it was set',
  'src/daemons/runed/attachments.ts': 'attachments in the store, which were validated on arrival',
  'src/daemons/webd/streams.ts': 'notices between processes of svc',
  'src/faces/rest-client.ts': 'responses of svc, in the command line',
  'src/cli/output/round-output.ts': 'responses of svc, in the command line',
  'src/cli/link/link-client.ts': 'responses of svc, in the command line',
  'src/cli/commands/bridge.ts': 'lines of the agent client that started it, in a process of its own',
  'src/runtimes/socket-client.ts': 'responses of svc, in the process of an agent',
  'src/runtimes/demo/agent.ts': 'the task, in the process of the demo',
  'src/runtimes/demo/actions.ts': 'results of tools, in the process of the demo',
  'src/runtimes/demo/turn.ts': 'its own text, in the process of the demo',
  'src/runtimes/openai/agent.ts': 'the task, in the process of an agent',
  'src/runtimes/openai/completion-assembler.ts': 'responses of a model, in the process of an agent',
  'src/runtimes/openai/provider-error.ts': 'responses of a model, in the process of an agent',
  'src/runtimes/openai/transcript.ts': 'its own file, in the process of an agent',
  'src/runtimes/openai/turn.ts': 'responses of a model, in the process of an agent',
  'src/egress/admin/client.ts': 'responses of egress-proxy, in the command line',
  'src/egress/admin/duplicate-key.ts': 'one string of a parsed body',
  'src/egress/policy/state-file.ts': 'the state of the egress proxy',
  'src/egress/run/denials.ts': 'log lines of egress-proxy',
  'src/egress/run/proxy-container.ts': 'log lines of egress-proxy',
  'src/web/browser/link.ts': 'responses of svc, in a browser',
  'src/web/browser/outbox.ts': "the page's own storage, in a browser",
  'src/web/browser/topics.ts': "the page's own storage, in a browser",
}

/** Texts by path. Paths are relative to the root, with forward slashes. */
type Tree = Record<string, string>

interface Import {
  readonly from: string
  /** A path of the tree, or a package specifier. */
  readonly to: string
  readonly local: boolean
  readonly typeOnly: boolean
  readonly reExport: boolean
}

const isTest = (path: string): boolean => /\.(test|contract)\.ts$/.test(path)
const isSource = (path: string): boolean => path.startsWith('src/') && path.endsWith('.ts') && !isTest(path)
const isList = (path: string): boolean => /^src\/.+\/index\.ts$/.test(path)
const layerOf = (path: string): string => /^src\/([^/]+)\//.exec(path)?.[1] ?? ''

const IMPORT = /^[ \t]*(import|export)\s+(type\s+(?!from\b))?(?:[\w$\s{},*]*?\bfrom\s*)?['"]([^'"]+)['"]/gm
const LAZY_IMPORT = /(typeof\s+)?\bimport\(\s*['"]([^'"]+)['"]/g

/** `import { type A }` is not type-only: after type stripping it still loads the module. */
function importsOf(path: string, text: string): Import[] {
  const code = withoutComments(text)
  const found = (name: string, typeOnly: boolean, reExport: boolean): Import => {
    const local = name.startsWith('.')
    return { from: path, to: local ? posix.join(posix.dirname(path), name) : name, local, typeOnly, reExport }
  }
  return [
    ...[...code.matchAll(IMPORT)].map(([, word, type, name = '']) => found(name, Boolean(type), word === 'export')),
    ...[...code.matchAll(LAZY_IMPORT)].map(([, type, name = '']) => found(name, Boolean(type), false)),
  ]
}

/** Removes only comments that start a line or follow a blank: strings may contain globs and URLs. */
function withoutComments(text: string): string {
  return text.replace(/^[ \t]*\/\*[\s\S]*?\*\//gm, '').replace(/(^|\s)\/\/.*$/gm, '$1')
}

function importsIn(tree: Tree, among: (path: string) => boolean): Import[] {
  return Object.entries(tree).flatMap(([path, text]) => (among(path) ? importsOf(path, text) : []))
}

function packageOf({ to, local }: Import): string | undefined {
  return local || to.startsWith('node:') ? undefined : /^(@[^/]+\/)?[^/]+/.exec(to)?.[0]
}

const describeImport = ({ from, to }: Import, why: string): string => `${from} imports ${to}: ${why}`

function layerViolations(tree: Tree): string[] {
  const unknown = Object.keys(tree)
    .filter((path) => isSource(path) && !MAY_IMPORT[layerOf(path)])
    .map((path) => `${path}: no row in MAY_IMPORT`)
  const crossing = importsIn(tree, (path) => path.startsWith('src/') && path.endsWith('.ts')).flatMap((found) => {
    const why = crossingError(found)
    return why ? [describeImport(found, why)] : []
  })
  return [...unknown, ...crossing]
}

function crossingError({ from, to, local }: Import): string | undefined {
  if (!local || (isTest(from) && to.startsWith('test/support/'))) return undefined
  if (!to.startsWith('src/')) return 'it is outside src'
  if (isTest(to) && !isTest(from)) return 'it is a test'
  const [layer, other] = [layerOf(from), layerOf(to)]
  if (layer === other || MAY_IMPORT[layer]?.includes(other)) return undefined
  return `${layer} may not import ${other || 'it'}`
}

function plugViolations(tree: Tree): string[] {
  const plugs = Object.keys(tree).flatMap((path) => PLUG.exec(path)?.[1] ?? [])
  return importsIn(tree, isSource).flatMap((found) => {
    const { from, to } = found
    const plug = plugs.find((folder) => to.startsWith(folder))
    if (plug && !from.startsWith(plug) && from !== `src/${layerOf(to)}/index.ts`)
      return [describeImport(found, 'only its list may import a plug-in')]
    if (isList(to) && !MAY_IMPORT_LISTS.includes(layerOf(from)))
      return [describeImport(found, `only ${MAY_IMPORT_LISTS.join(', ')} and tests may import a list`)]
    if (isList(from) && found.reExport) return [describeImport(found, 'a list must not re-export')]
    return []
  })
}

function resourceViolations(tree: Tree): string[] {
  const inResources = (path: string): boolean => isSource(path) && layerOf(path) === 'resources' && !isList(path)
  return importsIn(tree, inResources)
    .filter(({ to }) => layerOf(to) === 'resources')
    .map((found) => describeImport(found, 'move what two resources share to core'))
}

function packageViolations(tree: Tree): string[] {
  const manifest: { dependencies?: Record<string, string> } = JSON.parse(tree['package.json'] ?? '{}')
  return importsIn(tree, isSource).flatMap((found) => {
    const name = packageOf(found)
    if (!name) return []
    if (!manifest.dependencies?.[name])
      return [describeImport(found, 'it is not in dependencies, so the published package would not install it')]
    if (ONLY_IN_STORE.includes(name) && !found.typeOnly && layerOf(found.from) !== 'store')
      return [describeImport(found, 'only store may load it; use import type elsewhere')]
    return []
  })
}

function cycles(tree: Tree): string[] {
  const next = Map.groupBy(
    importsIn(tree, isSource).filter(({ to }) => isSource(to)),
    ({ from }) => from,
  )
  const found: string[] = []
  const done = new Set<string>()
  const visit = (path: string, way: readonly string[]): void => {
    if (way.includes(path)) found.push([...way.slice(way.indexOf(path)), path].join(' → '))
    if (way.includes(path) || done.has(path)) return
    for (const { to } of next.get(path) ?? []) visit(to, [...way, path])
    done.add(path)
  }
  for (const path of next.keys()) visit(path, [])
  return found
}

function unlisted(tree: Tree): string[] {
  const folders = Object.entries(FOLDER_LISTS).flatMap(([list, member]) => {
    const text = tree[list]
    return text === undefined
      ? []
      : Object.keys(tree)
          .filter((path) => !text.includes(`'${member.exec(path)?.[1] ?? ''}'`) && member.test(path))
          .map((path) => `${path} is not in ${list}`)
  })
  const files = Object.entries(LISTS).flatMap(([list, member]) => {
    const text = tree[list]
    if (text === undefined) return []
    const listed = new Set(importsOf(list, text).map(({ to }) => to))
    return Object.keys(tree)
      .filter((path) => isSource(path) && member.test(path) && path !== list && !listed.has(path))
      .map((path) => `${path} is not in ${list}`)
  })
  return [...folders, ...files]
}

function environmentReaders(tree: Tree): string[] {
  return Object.entries(tree)
    .filter(([path]) => isSource(path) && path !== ENVIRONMENT_READER)
    .filter(([, text]) =>
      /\bprocess\s*(\.|\[['"])\s*env\b|\benv\b[^'"]*from 'node:process'/.test(withoutComments(text)),
    )
    .map(([path]) => `${path} reads the environment; only ${ENVIRONMENT_READER} may`)
}

const FILE_IMPORT = /^[ \t]*(?:import|export)\s+(?!type\b)([^'"]*?)\s*from\s*['"](?:node:)?fs(?:\/promises)?['"]/gm
const LAZY_FILE_IMPORT = /\b(?:import|require|getBuiltinModule)\(\s*['"](?:node:)?fs(?:\/promises)?['"]/

function fileWriters(tree: Tree): string[] {
  return Object.entries(tree)
    .filter(([path]) => isSource(path) && MAY_WRITE_FILES[path] === undefined)
    .flatMap(([path, text]) => {
      const code = withoutComments(text)
      const names = [...code.matchAll(FILE_IMPORT)].flatMap(([, clause = '']) => listNames(clause))
      const found = names.filter((name) => FILE_WRITERS.has(name))
      if (LAZY_FILE_IMPORT.test(code)) found.push('everything')
      return found.map((name) => `${path} imports ${name} from node:fs; write files through src/lib/files/directory.ts`)
    })
}

/** Lists the imported names: `{ rm as remove }` is rm, and `* as fs` is everything. */
function listNames(clause: string): string[] {
  const [, listed] = /\{([^}]*)\}/.exec(clause) ?? []
  const rest = clause.replace(/\{[^}]*\}/, '').replace(/[\s,]/g, '')
  const names = (listed ?? '').split(',').map((part) => part.trim())
  const values = names.filter((part) => part !== '' && !part.startsWith('type '))
  return [...values.map((part) => part.split(/\s+as\s+/)[0] ?? ''), ...(rest === '' ? [] : ['default'])]
}

function staleWriters(tree: Tree): string[] {
  return Object.keys(MAY_WRITE_FILES)
    .filter((path) => tree['package.json'] !== undefined && tree[path] === undefined)
    .map((path) => `${path} does not exist; remove it from MAY_WRITE_FILES`)
}

const JSON_PARSER = /\bJSON\s*(?:\?\.|\.|\[\s*['"])\s*parse\b|\bparse\b[^}=]*\}\s*=\s*JSON\b|\.json\(\s*\)/

function jsonParsers(tree: Tree): string[] {
  const parses = (path: string): boolean => JSON_PARSER.test(withoutComments(tree[path] ?? ''))
  const parsing = Object.keys(tree)
    .filter((path) => isSource(path) && MAY_PARSE_JSON[path] === undefined && parses(path))
    .map((path) => `${path} parses JSON; use src/lib/text/json.ts for untrusted JSON`)
  const stale = Object.keys(MAY_PARSE_JSON)
    .filter((path) => tree['package.json'] !== undefined && !parses(path))
    .map((path) => `${path} does not parse JSON; remove it from MAY_PARSE_JSON`)
  return [...parsing, ...stale]
}

function defaultExports(tree: Tree): string[] {
  return Object.entries(tree)
    .filter(
      ([path, text]) => path.endsWith('.ts') && /^\s*export\s+default\b|\bas default\b/m.test(withoutComments(text)),
    )
    .map(([path]) => `${path} has a default export`)
}

function moduleVariables(tree: Tree): string[] {
  return Object.entries(tree)
    .filter(([path]) => path.startsWith('src/') && path.endsWith('.ts'))
    .flatMap(
      ([path, text]) =>
        withoutComments(text)
          .match(/^(?:export\s+)?(?:let|var)\b.*/gm)
          ?.map((line) => [path, line]) ?? [],
    )
    .map(([path, line]) => `${path} has a module-level variable: ${line}`)
}

function badNames(tree: Tree): string[] {
  return Object.keys(tree)
    .filter((path) => /^(src|test|bench|bin)\/.*\.[jt]s$/.test(path))
    .filter((path) =>
      path.split('/').some((part) => {
        const name = part.split('.')[0] ?? ''
        return !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(name) || EMPTY_NOUN.test(name.split('-').at(-1) ?? '')
      }),
    )
    .map((path) => `${path} is not a meaningful kebab-case noun`)
}

const EXPORT = /^export (?:async )?(?:abstract )?(?:interface|type|class|function\*?|const) (\w+)/gm
/** Exported by both programs: `bin/front.js` calls it. */
const ENTRY_FUNCTION = 'runProcess'

function repeatedExports(tree: Tree): string[] {
  const exported = Object.entries(tree).flatMap(([path, text]) => {
    if (!isSource(path)) return []
    return [...new Set([...text.matchAll(EXPORT)].map(([, name = '']) => name))].map((name) => ({ name, path }))
  })
  const byName = Map.groupBy(exported, ({ name }) => name)
  return [...byName]
    .filter(([name, places]) => places.length > 1 && name !== ENTRY_FUNCTION)
    .map(([name, places]) => `${name} is exported by ${places.map(({ path }) => path).join(' and ')}`)
}

/** Retired file names and their replacements. */
const RETIRED_NAMES: Record<string, string> = {
  'channel-book': 'channel-registry',
  deeds: 'actions',
  farewell: 'linger-close',
  'giving-way': 'thread-priority',
  holder: 'chat-owner',
  holding: 'approvals',
  'link-book': 'link-cache',
  lookout: 'store-watcher',
  onward: 'http-forwarder',
  patience: 'timeouts',
  unheld: 'unrouted',
  visit: 'link-request',
}

function retiredNames(tree: Tree): string[] {
  return Object.keys(tree).flatMap((path) => {
    const better = RETIRED_NAMES[posix.basename(path).split('.')[0] ?? '']
    return better === undefined ? [] : [`${path}: call it ${better}`]
  })
}

interface Rule {
  readonly violations: (tree: Tree) => string[]
  /** Example trees, each with exactly one violation. */
  readonly refuses: Record<string, Tree>
  readonly allows?: Tree
}

const RULES: Record<string, Rule> = {
  'imports point down only': {
    violations: layerViolations,
    refuses: {
      'a layer above': { 'src/lib/a.ts': `import { b } from '../core/b.ts'` },
      'a layer above, for its types': { 'src/lib/a.ts': `import type { B } from '../core/b.ts'` },
      'a layer above, over several lines': { 'src/store/a.ts': `import {\n  b,\n  type C,\n} from "../core/b.ts"` },
      'a layer above, lazily': { 'src/core/a.ts': `const { b } = await import('../faces/b.ts')` },
      'a layer above, by re-export': { 'src/core/a.ts': `export * from '../faces/b.ts'` },
      'a neighbour': { 'src/faces/a.ts': `import { b } from '../resources/b.ts'` },
      'a test': { 'src/lib/a.ts': `import { b } from './b.contract.ts'` },
      'the manifest': { 'src/lib/a.ts': `import manifest from '../../package.json' with { type: 'json' }` },
      'the test support': { 'src/lib/a.ts': `import { b } from '../../test/support/b.ts'` },
      'a layer above, in a test': { 'src/lib/a.test.ts': `import { b } from '../cli/b.ts'` },
      'an unknown folder': { 'src/other/a.ts': '' },
    },
    allows: {
      'src/core/a.ts': `import { z } from 'zod'\nimport { b } from '../lib/b.ts'\nimport { c } from './c.ts'`,
      'src/core/b.ts': `/* import { b } from '../cli/b.ts' */\n// see import('../cli/b.ts')\nconst glob = 'src/**/*.ts'`,
      'src/core/a.test.ts': `import { a } from './a.ts'\nimport { t } from '../../test/support/t.ts'`,
    },
  },
  'only its list imports a plug-in, and only daemons, cli, egress and tests import a list': {
    violations: plugViolations,
    refuses: {
      'a plug-in': {
        'src/store/table.ts': `import { open } from './sqlite/engine.ts'`,
        'src/store/sqlite/engine.ts': '',
      },
      'a plug-in in a plug-in': {
        'src/daemons/webd/daemon.ts': `import { s } from '../gated/socket.ts'`,
        'src/daemons/gated/daemon.ts': '',
      },
      'a list below': { 'src/registry/call.ts': `import { tables } from '../core/index.ts'` },
      'a list as a barrel': { 'src/core/index.ts': `export { a } from './a.ts'` },
    },
    allows: {
      'src/store/index.ts': `import { open } from './sqlite/engine.ts'`,
      'src/store/sqlite/engine.ts': `import { c } from './connection.ts'\nimport type { E } from '../engine.ts'`,
      'src/store/sqlite/engine.test.ts': `import { other } from '../postgres/engine.ts'`,
      'src/cli/main.ts': `const { commands } = await import('./commands/index.ts')`,
    },
  },
  'a resource does not import another': {
    violations: resourceViolations,
    refuses: { 'a resource': { 'src/resources/a.ts': `import type { B } from './b.ts'` } },
    allows: { 'src/resources/index.ts': `import { a } from './a.ts'` },
  },
  'imported packages are dependencies, and only store loads the database driver': {
    violations: packageViolations,
    refuses: {
      pg: {
        'package.json': '{"dependencies": {"pg": "1"}}',
        'src/core/a.ts': `import { type Pool } from 'pg'`,
      },
      'a development dependency': {
        'package.json': '{"devDependencies": {"@x/y": "1"}}',
        'src/lib/a.ts': `import { y } from '@x/y/z'`,
      },
    },
    allows: {
      'package.json': '{"dependencies": {"pg": "1"}}',
      'src/core/a.ts': `import type { Pool } from 'pg'\ntype P = typeof import('pg')`,
      'src/store/a.ts': `import { Pool } from 'pg'`,
    },
  },
  'files do not import each other in a cycle, not even for types': {
    violations: cycles,
    refuses: {
      'a cycle of types': {
        'src/lib/a.ts': `import { b } from './b.ts'`,
        'src/lib/b.ts': `import type { A } from './a.ts'`,
      },
      'a cycle of three': {
        'src/lib/a.ts': `import { b } from './b.ts'`,
        'src/lib/b.ts': `import { c } from './c.ts'`,
        'src/lib/c.ts': `import { a } from './a.ts'`,
      },
    },
    allows: {
      'src/lib/a.ts': `import { b } from './b.ts'\nimport type { C } from './c.ts'`,
      'src/lib/b.ts': `import type { C } from './c.ts'`,
      'src/lib/c.ts': '',
    },
  },
  'every file of a listed folder is in its list': {
    violations: unlisted,
    refuses: {
      'a resource': { 'src/resources/index.ts': '', 'src/resources/a.ts': '' },
      'a daemon': { 'src/daemons/index.ts': '', 'src/daemons/webd/daemon.ts': '' },
      'a runtime': { 'src/runtimes/settings.ts': `['demo']`, 'src/runtimes/echo/runtime.ts': '' },
    },
    allows: {
      'src/runtimes/settings.ts': `['demo']`,
      'src/runtimes/demo/runtime.ts': '',
      'src/cli/commands/index.ts': `export const commands = { a: () => import('./a.ts') }`,
      'src/cli/commands/a.ts': '',
      'src/cli/commands/a.test.ts': '',
      'src/daemons/index.ts': '',
      'src/daemons/serve.ts': '',
    },
  },
  'only one file reads the environment': {
    violations: environmentReaders,
    refuses: {
      'process.env': { 'src/cli/a.ts': 'const home = process.env.HOME' },
      'a destructured one': { 'src/cli/a.ts': `import { env } from 'node:process'` },
    },
    allows: { [ENVIRONMENT_READER]: 'process.env', 'src/lib/a.ts': '// process.env is elsewhere' },
  },
  'one module writes files, so that agents cannot lead the host out of a workspace': {
    violations: (tree) => [...fileWriters(tree), ...staleWriters(tree)],
    refuses: {
      'a function that writes': { 'src/core/a.ts': `import { mkdir, stat } from 'node:fs/promises'` },
      'a synchronous function': { 'src/core/a.ts': `import { statSync, unlinkSync } from 'node:fs'` },
      'a function, over several lines': {
        'src/core/a.ts': `import {\n  stat,\n  type Stats,\n  rm,\n} from 'node:fs/promises'`,
      },
      'a renamed import': { 'src/core/a.ts': `import { rename as move } from "fs/promises"` },
      'the whole module': { 'src/core/a.ts': `import * as fs from 'node:fs'` },
      'the default export': { 'src/core/a.ts': `import fs, { constants } from 'node:fs'` },
      'its promises': { 'src/core/a.ts': `import { promises } from 'node:fs'` },
      'a lazy import': { 'src/core/a.ts': `const { rm } = await import('node:fs/promises')` },
      'a re-export': { 'src/core/a.ts': `export { writeFile } from 'node:fs/promises'` },
    },
    allows: {
      'src/lib/files/directory.ts': `import { open, unlink } from 'node:fs/promises'`,
      'src/core/a.ts': `import { constants, existsSync, type WriteStream } from 'node:fs'\nimport { stat } from 'node:fs/promises'`,
      'src/core/b.ts': `import type { FileHandle } from 'node:fs/promises'\n// import { rm } from 'node:fs'`,
      'src/core/a.test.ts': `import { rmSync } from 'node:fs'`,
    },
  },
  'one module parses untrusted JSON, after checking its depth': {
    violations: jsonParsers,
    refuses: {
      'the parser': { 'src/core/a.ts': 'const value: unknown = JSON.parse(text)' },
      'the parser as a value': { 'src/core/a.ts': 'texts.map(JSON.parse)' },
      'the parser by computed name': { 'src/core/a.ts': `JSON['parse'](text)` },
      'a part of JSON': { 'src/core/a.ts': 'const { parse } = JSON' },
      'a body': { 'src/core/a.ts': 'const body: unknown = await request.json()' },
    },
    allows: {
      'src/lib/text/json.ts': 'JSON.parse(text)',
      'src/core/a.ts': `// JSON.parse is elsewhere\nResponse.json({})\nMark.parse(JSON.stringify(mark))`,
      'src/core/a.test.ts': 'JSON.parse(text)',
    },
  },
  'exported names are unique': {
    violations: repeatedExports,
    refuses: {
      'a type and a function': {
        'src/lib/a.ts': 'export interface Place {}',
        'src/core/b.ts': 'export function Place() {}',
      },
      'two constants': { 'src/lib/a.ts': 'export const LIMIT = 1', 'src/egress/b.ts': 'export const LIMIT = 2' },
    },
    allows: {
      'src/lib/a.ts': 'export const Thing = 1\nexport type Thing = number',
      'src/lib/b.ts': 'interface Thing {}\nexport async function runProcess() {}',
      'src/egress/c.ts': 'export async function runProcess() {}',
      'src/lib/a.test.ts': 'export const Thing = 2',
    },
  },
  'retired file names do not come back': {
    violations: retiredNames,
    refuses: { 'a source': { 'src/daemons/lookout.ts': '' }, 'a test': { 'src/egress/patience.test.ts': '' } },
    allows: { 'src/core/links/link-token.ts': '', 'src/lib/visitor.ts': '' },
  },
  'there are no default exports': {
    violations: defaultExports,
    refuses: { 'a default': { 'bench/a.ts': 'export default 1' } },
  },
  'modules have no variables': {
    violations: moduleVariables,
    refuses: {
      'a variable': { 'src/lib/a.ts': 'let count = 0' },
      'an exported variable': { 'src/lib/a.ts': `import { b } from './b.ts'\n\nexport let count = b` },
      'several variables': { 'src/lib/a.ts': 'let [a, b] = [0, 1]' },
      'a variable of a test': { 'src/lib/a.test.ts': 'let count = 0' },
      'a var': { 'src/lib/a.ts': 'var count = 0' },
    },
    allows: {
      'src/lib/a.ts': `export function counter() {\n  let count = 0\n  return () => count++\n}\n// let it be`,
      'src/lib/b.ts': 'const letter = 1',
      'test/a.test.ts': 'let count = 0',
    },
  },
  'file names are kebab-case nouns': {
    violations: badNames,
    refuses: {
      'an empty noun': { 'src/lib/string-utils.ts': '' },
      'an empty folder name': { 'src/lib/helpers/a.ts': '' },
      'a capital': { 'src/lib/Table.ts': '' },
    },
    allows: { 'src/lib/data-dir.ts': '', 'src/lib/base64url.test.ts': '' },
  },
}

function readTree(): Tree {
  const paths = ['package.json', ...globSync('{src,test,bench,bin}/**/*.{ts,js}', { cwd: ROOT })]
  return Object.fromEntries(paths.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]))
}

const codeBase = readTree()
for (const [rule, { violations, refuses, allows }] of Object.entries(RULES)) {
  suite(rule, () => {
    test('in the code base', () => assert.deepEqual(violations(codeBase), []))
    for (const [name, tree] of Object.entries(refuses))
      test(`refuses ${name}`, () => assert.equal(violations(tree).length, 1, violations(tree).join('\n')))
    if (allows) test('allows other code', () => assert.deepEqual(violations(allows), []))
  })
}
