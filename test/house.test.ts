// Rules for the source tree: layers, lists, imports, names. Each rule is a function from a tree of files to its
// violations, so that it is tested with made-up trees as well as applied to the repository.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { suite, test } from 'node:test'
import { backtrackingOf } from './support/backtracking.ts'
import { unguardedCallbacks } from './support/callback-rules.ts'
import { findPatterns } from './support/pattern-sites.ts'

const ROOT = dirname(import.meta.dirname)

/** The folders that each folder of src may import. */
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
  supervisor: ['lib'],
  daemons: [
    ...['lib', 'store', 'core', 'registry', 'permissions', 'resources', 'tools', 'faces', 'channels'],
    ...['agent-socket', 'cell', 'egress', 'runtimes', 'web', 'supervisor'],
  ],
  deploy: ['lib', 'store', 'core', 'registry', 'resources', 'cell', 'egress', 'runtimes', 'daemons'],
  cli: [
    ...['lib', 'store', 'core', 'registry', 'resources', 'tools', 'faces', 'cell', 'runtimes', 'daemons', 'deploy'],
    'supervisor',
  ],
}

/** Each list and the files that it must import. */
const LISTS: Record<string, RegExp> = {
  'src/store/index.ts': /^src\/store\/[^/]+\/engine\.ts$/,
  'src/resources/index.ts': /^src\/resources\/[^/]+\.ts$/,
  'src/tools/index.ts': /^src\/tools\/[^/]+\.ts$/,
  'src/daemons/index.ts': /^src\/daemons\/[^/]+\/daemon\.ts$/,
  'src/cli/commands/index.ts': /^src\/cli\/commands\/[^/]+\.ts$/,
  'src/egress/commands/index.ts': /^src\/egress\/commands\/[^/]+\.ts$/,
}

/** Lists of folder names, from which plugins are loaded. `channels/http` is the channel of every adapter. */
const FOLDER_LISTS: Record<string, RegExp> = {
  'src/core/delivery/platforms.ts': /^src\/channels\/(?!http\/)([^/]+)\/adapter\.ts$/,
  'src/core/delivery/platform-accounts.ts': /^src\/channels\/([^/]+)\/connector\.ts$/,
  'src/runtimes/settings.ts': /^src\/runtimes\/([^/]+)\/runtime\.ts$/,
}

const MAY_IMPORT_LISTS = ['daemons', 'cli', 'egress']
/** The entry file of a plugin; everything in its folder belongs to it. */
const PLUGIN = /^(src\/(?:store|channels|runtimes|daemons)\/[^/]+\/)(?:engine|adapter|connector|runtime|daemon)\.ts$/
/** Packages of platforms are optional. */
const CONNECTOR_FOLDER = /^src\/channels\/(?:telegram|slack|discord|email)\//
const ONLY_IN_STORE = ['pg']
const ENVIRONMENT_READER = 'src/lib/environment.ts'
/** Last words of file names that exclude nothing, so that such files collect unrelated code. */
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
  'src/egress/container/route-remover.ts': 'text of a program that reads /proc in a container',
  'src/lib/files/process-directory.ts': 'temporary directories of this process',
  'src/lib/files/atomic-file.ts': '.env, manifests and egress state',
  'src/lib/files/owner.ts': 'directories and empty files of svc itself, with the owner of their directory',
  'src/core/delivery/staged-files.ts': 'copies of files to send, in <data>/outbox',
  'src/store/sqlite/store-file.ts': 'the store',
  'src/store/sqlite/loss-watch.ts': 'notes beside the store how far it is',
  'src/store/sqlite/wal-sync.ts': 'syncs the log of the store',
  'src/store/sqlite/snapshot.ts': 'the private copy of the store for a backup',
  'src/store/sqlite/load.ts': 'the store that a restore writes',
  'src/cli/backup/archive-file.ts': 'the backup file',
  'src/cli/backup/restore-directory.ts': 'a new data directory without processes',
  'src/store/search/full-text-file.ts': 'the search index',
  'src/store/migrate.ts': 'the copy of the store before a migration',
  'src/egress/policy/state-file.ts': 'the state of the egress proxy',
  'src/channels/process/adapter-server.ts': 'files to send, in the directory of an adapter',
  'src/egress/container/seccomp.ts': 'the seccomp profile of one run, in a temporary directory',
  'src/cell/bubblewrap/mount-view.ts': 'a temporary directory to mount on',
  'src/cell/bubblewrap/anonymous-file.ts': 'an unnamed temporary file',
  'src/cell/container/container-directory.ts': 'directories of containers, in <data>/cells',
  'src/lib/files/live-directory.ts': 'directories of processes, in <data>/cells',
  'src/daemons/process/presence.ts': 'the socket of a serving process, in <data>/ipc',
  'src/agent-socket/run-socket.ts': 'the sockets of runs, in a temporary directory',
  'src/runtimes/mcp-config.ts': 'a temporary directory of one run',
  'src/runtimes/openai/transcript.ts': 'runs inside the cell, as the agent',
  'src/daemons/process/speech-synthesis.ts': 'synthesized speech, in <data>/speech',
  'src/daemons/gated/folder-sockets.ts': 'the sockets, in <data>/ipc',
  'src/daemons/gated/folder-socket.ts': 'the sockets, in <data>/ipc',
  'src/daemons/proxyd/published-files.ts': 'reads published pages, with open',
  'src/cli/doctor/file-checks.ts': 'the mode of .env, and leftovers of svc in the data directory',
  'src/cli/instance/create-instance.ts': 'the data directory and its .env',
  'src/deploy/packages/package-journal.ts': 'services, skills and packages of the data directory',
  'src/cli/instance/env-file.ts': 'the .env of an instance',
  'src/deploy/compose-files.ts': 'the compose file and the files that containers mount, in <data>/env',
  'src/deploy/temporary-file.ts': 'a temporary file for compose',
  'src/cli/remote/sign-in-file.ts': 'the tokens of a sign-in to another machine',
}

/** Files that call JSON.parse: the JSON is our own, or the process serves no other clients. */
const MAY_PARSE_JSON: Record<string, string> = {
  'src/channels/process/account-config.ts': 'the configuration that svc writes, in the process of an adapter',
  'src/registry/audit.ts': 'its own summaries',
  'src/egress/container/command-check.ts': 'output of the container engine',
  'src/lib/text/json.ts': 'the only module that parses untrusted JSON',
  'src/store/table.ts': 'columns of the store',
  'src/store/backup-rows.ts': 'rows of a backup with verified checksums, in the command line',
  'src/core/access/bearers.ts': 'signing keys in the store',
  'src/core/delivery/delivery.ts': 'rows of the outbox',
  'src/core/secrets/signing-key-cache.ts': 'signing keys in the store',
  'src/core/prompt/prompt-rows.ts': 'attachments in the store, validated on arrival',
  'src/core/search/search-feed.ts': 'the position in the search index',
  'src/tools/register-group.ts': 'the config of a group, validated when set',
  'src/daemons/runed/attachments.ts': 'attachments in the store, validated on arrival',
  'src/daemons/webd/streams.ts': 'notifications between svc processes',
  'src/cli/commands/bridge.ts': 'lines of the agent client that started it, in its own process',
  'src/runtimes/socket-client.ts': 'responses of svc, in the agent process',
  'src/runtimes/demo/agent.ts': 'the task, in the demo process',
  'src/runtimes/demo/actions.ts': 'tool results, in the demo process',
  'src/runtimes/demo/turn.ts': 'its own text, in the demo process',
  'src/runtimes/openai/agent.ts': 'the task, in the agent process',
  'src/runtimes/openai/completion-assembler.ts': 'responses of a model, in the agent process',
  'src/runtimes/openai/provider-error.ts': 'responses of a model, in the agent process',
  'src/runtimes/openai/transcript.ts': 'its own file, in the agent process',
  'src/runtimes/openai/turn.ts': 'responses of a model, in the agent process',
  'src/egress/admin/client.ts': 'responses of egress-proxy, in the command line',
  'src/egress/admin/duplicate-key.ts': 'one string of a parsed body',
  'src/egress/policy/state-file.ts': 'the state of the egress proxy',
  'src/egress/run/denials.ts': 'log lines of egress-proxy',
  'src/egress/run/component-start.ts': 'log lines of egress-proxy',
  'src/web/browser/link.ts': 'responses of svc, in a browser',
  'src/web/browser/outbox.ts': "the page's own storage, in a browser",
  'src/web/browser/topics.ts': "the page's own storage, in a browser",
  'src/web/browser/passkey.ts': 'responses of svc, in a browser',
}

/** Folders whose code runs in a serving process. */
const SERVER_FOLDER = /^src\/(?!cli\/|deploy\/|web\/|lib\/command-line\/|egress\/(?:cli|commands|container|run)\/)/

/** Files of the server folders that run elsewhere, where an exception ends only what they do. */
const OTHER_PROCESSES: Record<string, string> = {
  'src/channels/process/account-config.ts': 'the process of an adapter',
  'src/channels/process/main.ts': 'the process of an adapter',
  'src/egress/io.ts': 'the command line of egress-proxy',
  'src/runtimes/connect.ts': 'a process inside a cell',
  'src/runtimes/demo/agent.ts': 'the process of the demo agent',
  'src/runtimes/socket-client.ts': 'a process of an agent',
  'src/supervisor/program.ts': 'the parent of the serving processes, which handles no data of clients',
  'src/supervisor/supervisor.ts': 'the parent of the serving processes, which handles no data of clients',
  'src/store/search/full-text-process.ts': 'a process that searches',
  'src/store/search/full-text-thread.ts': 'a thread, whose end is handled',
  'src/store/sqlite/checkpoint-thread.ts': 'a thread, whose end is handled',
}

const SIGN_OF_LIFE = 'calls guarded listeners, and a process that cannot say that it is alive must end'
const GUARDED_WORK = 'the work that waits is guarded by its callers'
const LOG_ITSELF = 'the log has nowhere to report to; it hands lines to fs.write, which calls back with its errors'

/** Callbacks that are right outside of the fault boundary. */
const MAY_BE_UNGUARDED: Record<string, string> = {
  'src/lib/flow-limiter.ts: setTimeout(() => this.#run(), waitMs)': GUARDED_WORK,
  'src/lib/flow-limiter.ts: setImmediate(() => this.#run())': GUARDED_WORK,
  'src/lib/fault-boundary.ts: queueMicrotask(() => {': 'ends the process on purpose',
  "src/supervisor/process-line.ts: process.on('message', (message: ToChild, handle: unknown) => {": SIGN_OF_LIFE,
  "src/supervisor/process-line.ts: socket.on('data', (text) => {": 'calls guarded listeners',
  "src/supervisor/process-line.ts: setInterval(() => send({ kind: 'alive' }), ALIVE_MS)": SIGN_OF_LIFE,
  "src/lib/log/log-stream.ts: process.once('exit', () => this.#finish())": LOG_ITSELF,
  'src/lib/log/log-stream.ts: setImmediate(() => this.#flush())': LOG_ITSELF,
  'src/lib/log/log-stream.ts: setTimeout(() => this.#flush(), BUSY_MS)': LOG_ITSELF,
  'src/lib/log/log-stream.ts: write(STDERR, this.#nextPiece(), (error, written) => {': LOG_ITSELF,
  'src/lib/log/log.ts: setImmediate(flush)': LOG_ITSELF,
  'src/lib/log/log.ts: setTimeout(flush, GATHER_MS)': LOG_ITSELF,
  "src/lib/files/live-directory.ts: server.once('close', () => closeSync(fd))": 'nothing else closes the descriptor',
  "src/egress/worker/data-plane-client.ts: process.on('exit', this.#onExit)": 'the process is exiting',
}

/** Files whose regular expressions may take more than linear time, because nobody else can write the text. */
const MAY_BACKTRACK: Record<string, string> = {
  'src/web/chat/script.ts': 'our own browser modules',
  'src/web/chat/highlighter.ts': 'a package that we chose',
  'src/store/statement.ts': 'our own SQL',
  'src/store/search/text-query.ts': 'a quote that is not closed is the last one',
  'src/lib/command-line/usage.ts': 'our own usage lines',
  'src/egress/admin/duplicate-key.ts': 'only valid JSON, whose strings are closed',
  'src/core/people/onboarding-gates.ts': 'only valid globs, whose classes are closed',
}

/** Text by path. Paths are relative to the root, with forward slashes. */
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

/** `import { type A }` counts as run-time: with the types stripped it still loads the module. */
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

/** Only comments at the start of a line or after a space, not globs or URLs in strings. */
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
  const unlistedLayers = Object.keys(tree)
    .filter((path) => isSource(path) && !MAY_IMPORT[layerOf(path)])
    .map((path) => `${path}: no row in MAY_IMPORT`)
  const crossings = importsIn(tree, (path) => path.startsWith('src/') && path.endsWith('.ts')).flatMap((found) => {
    const why = crossingReason(found)
    return why ? [describeImport(found, why)] : []
  })
  return [...unlistedLayers, ...crossings]
}

function crossingReason({ from, to, local }: Import): string | undefined {
  if (!local || (isTest(from) && to.startsWith('test/support/'))) return undefined
  if (!to.startsWith('src/')) return 'it is outside of src'
  if (isTest(to) && !isTest(from)) return 'it is a test'
  const [layer, other] = [layerOf(from), layerOf(to)]
  if (layer === other || MAY_IMPORT[layer]?.includes(other)) return undefined
  return `${layer} must not import ${other || 'it'}`
}

function pluginViolations(tree: Tree): string[] {
  const plugins = Object.keys(tree).flatMap((path) => PLUGIN.exec(path)?.[1] ?? [])
  return importsIn(tree, isSource).flatMap((found) => {
    const { from, to } = found
    const plugin = plugins.find((folder) => to.startsWith(folder))
    if (plugin && !from.startsWith(plugin) && from !== `src/${layerOf(to)}/index.ts`)
      return [describeImport(found, 'only its list imports a plugin')]
    if (isList(to) && !MAY_IMPORT_LISTS.includes(layerOf(from)))
      return [describeImport(found, `only ${MAY_IMPORT_LISTS.join(', ')} and tests import a list`)]
    if (isList(from) && found.reExport) return [describeImport(found, 'a list re-exports nothing')]
    return []
  })
}

function resourceViolations(tree: Tree): string[] {
  const inResources = (path: string): boolean => isSource(path) && layerOf(path) === 'resources' && !isList(path)
  return importsIn(tree, inResources)
    .filter(({ to }) => layerOf(to) === 'resources')
    .map((found) => describeImport(found, 'code shared by two resources belongs in core'))
}

function packageViolations(tree: Tree): string[] {
  type Packages = Record<string, string>
  const manifest: { dependencies?: Packages; devDependencies?: Packages; optionalDependencies?: Packages } = JSON.parse(
    tree['package.json'] ?? '{}',
  )
  // The package contains no declarations of other layers, so types of theirs may come from anywhere.
  const isErased = ({ from, typeOnly }: Import): boolean => typeOnly && !['lib', 'egress'].includes(layerOf(from))
  return importsIn(tree, isSource).flatMap((found) => {
    const name = packageOf(found)
    if (!name || (manifest.devDependencies?.[name] && isErased(found))) return []
    // Only the process of its adapter loads it.
    if (manifest.optionalDependencies?.[name] && CONNECTOR_FOLDER.test(found.from)) return []
    if (!manifest.dependencies?.[name])
      return [describeImport(found, 'not a dependency, so the installed package would lack it')]
    if (ONLY_IN_STORE.includes(name) && !found.typeOnly && layerOf(found.from) !== 'store')
      return [describeImport(found, 'only store loads it; use import type elsewhere')]
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

function missingFromLists(tree: Tree): string[] {
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
    .map(([path]) => `${path} reads the environment; only ${ENVIRONMENT_READER} does`)
}

const FILE_IMPORT = /^[ \t]*(?:import|export)\s+(?!type\b)([^'"]*?)\s*from\s*['"](?:node:)?fs(?:\/promises)?['"]/gm
const LAZY_FILE_IMPORT = /\b(?:import|require|getBuiltinModule)\(\s*['"](?:node:)?fs(?:\/promises)?['"]/

function fileWriters(tree: Tree): string[] {
  return Object.entries(tree)
    .filter(([path]) => isSource(path) && MAY_WRITE_FILES[path] === undefined)
    .flatMap(([path, text]) => {
      const code = withoutComments(text)
      const names = [...code.matchAll(FILE_IMPORT)].flatMap(([, clause = '']) => namesIn(clause))
      const found = names.filter((name) => FILE_WRITERS.has(name))
      if (LAZY_FILE_IMPORT.test(code)) found.push('everything')
      return found.map((name) => `${path} imports ${name} from node:fs; write files through src/lib/files/directory.ts`)
    })
}

/** The imported names as the module exports them: `{ rm as remove }` is rm, and `* as fs` is default. */
function namesIn(clause: string): string[] {
  const [, listed] = /\{([^}]*)\}/.exec(clause) ?? []
  const rest = clause.replace(/\{[^}]*\}/, '').replace(/[\s,]/g, '')
  const names = (listed ?? '').split(',').map((part) => part.trim())
  const values = names.filter((part) => part !== '' && !part.startsWith('type '))
  return [...values.map((part) => part.split(/\s+as\s+/)[0] ?? ''), ...(rest === '' ? [] : ['default'])]
}

function staleWriters(tree: Tree): string[] {
  return Object.keys(MAY_WRITE_FILES)
    .filter((path) => tree['package.json'] !== undefined && tree[path] === undefined)
    .map((path) => `${path} is gone; remove it from MAY_WRITE_FILES`)
}

const JSON_PARSER = /\bJSON\s*(?:\?\.|\.|\[\s*['"])\s*parse\b|\bparse\b[^}=]*\}\s*=\s*JSON\b|\.json\(\s*\)/

function jsonParsers(tree: Tree): string[] {
  const parses = (path: string): boolean => JSON_PARSER.test(withoutComments(tree[path] ?? ''))
  const parsing = Object.keys(tree)
    .filter((path) => isSource(path) && MAY_PARSE_JSON[path] === undefined && parses(path))
    .map((path) => `${path} parses JSON; parse untrusted JSON with src/lib/text/json.ts`)
  const stale = Object.keys(MAY_PARSE_JSON)
    .filter((path) => tree['package.json'] !== undefined && !parses(path))
    .map((path) => `${path} does not parse JSON; remove it from MAY_PARSE_JSON`)
  return [...parsing, ...stale]
}

function unguarded(tree: Tree): string[] {
  const isChecked = (path: string): boolean =>
    isSource(path) && SERVER_FOLDER.test(path) && OTHER_PROCESSES[path] === undefined
  const found = Object.keys(tree)
    .filter(isChecked)
    .flatMap((path) => unguardedCallbacks(path, tree[path] ?? ''))
    .map(({ path, code }) => `${path}: ${code}`)
  const isOurs = tree['package.json'] !== undefined
  const unused = Object.keys(OTHER_PROCESSES).filter((path) => unguardedCallbacks(path, tree[path] ?? '').length === 0)
  const stale = [...unused, ...Object.keys(MAY_BE_UNGUARDED).filter((place) => !found.includes(place))]
  return [
    ...found
      .filter((place) => MAY_BE_UNGUARDED[place] === undefined)
      .map((place) => `${place}: use guard of src/lib/fault-boundary.ts`),
    ...(isOurs ? stale.map((place) => `${place}: not found any more; remove it from the list`) : []),
  ]
}

function backtrackingPatterns(tree: Tree): string[] {
  const slowIn = (path: string): string[] =>
    findPatterns(path, tree[path] ?? '').flatMap(({ line, source, flags }) => {
      const parts = backtrackingOf(source, flags)
      return parts === undefined ? [] : [`${path}:${line} /${source}/${flags} can read the same text with ${parts}`]
    })
  const slow = Object.keys(tree)
    .filter((path) => isSource(path) && MAY_BACKTRACK[path] === undefined)
    .flatMap(slowIn)
  const stale = Object.keys(MAY_BACKTRACK)
    .filter((path) => tree['package.json'] !== undefined && slowIn(path).length === 0)
    .map((path) => `${path} has no slow pattern; remove it from MAY_BACKTRACK`)
  return [...slow, ...stale]
}

function defaultExports(tree: Tree): string[] {
  return Object.entries(tree)
    .filter(
      ([path, text]) => path.endsWith('.ts') && /^\s*export\s+default\b|\bas default\b/m.test(withoutComments(text)),
    )
    .map(([path]) => `${path} has a default export`)
}

/** Pages forbid `eval`, and from the second look on the browser evaluates a string as the page would. */
function awaitedStrings(tree: Tree): string[] {
  return Object.entries(tree)
    .filter(([path, text]) => path.endsWith('.ts') && /\bwaitForFunction\(\s*['"`]/.test(text))
    .map(([path]) => `${path} waits for a string; wait for a locator`)
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
    .map(([path, line]) => `${path} has a variable at module level: ${line}`)
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
    .map((path) => `${path} is not a specific noun in kebab-case`)
}

const EXPORT = /^export (?:async )?(?:abstract )?(?:interface|type|class|function\*?|const) (\w+)/gm
/** Exported by both programs, because `bin/launcher.js` calls it. */
const ENTRY_FUNCTION = 'runProcess'
/** Plugins of one kind export the same function. */
const PLUGIN_ENTRY = /\/(adapter|connector|runtime)\.ts$/

function repeatedExports(tree: Tree): string[] {
  const exported = Object.entries(tree).flatMap(([path, text]) => {
    if (!isSource(path)) return []
    return [...new Set([...text.matchAll(EXPORT)].map(([, name = '']) => name))].map((name) => ({ name, path }))
  })
  const byName = Map.groupBy(exported, ({ name }) => name)
  return [...byName]
    .filter(([name, places]) => places.length > 1 && name !== ENTRY_FUNCTION)
    .filter(([, places]) => !places.every(({ path }) => PLUGIN_ENTRY.test(path)))
    .map(([name, places]) => `${name} is exported by ${places.map(({ path }) => path).join(' and ')}`)
}

/** Unclear names that were replaced, and their replacements. */
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
  /** Made-up trees, each with exactly one violation. */
  readonly rejects: Record<string, Tree>
  readonly allows?: Tree
}

const RULES: Record<string, Rule> = {
  'imports point down only': {
    violations: layerViolations,
    rejects: {
      'a layer above': { 'src/lib/a.ts': `import { b } from '../core/b.ts'` },
      'a layer above, type only': { 'src/lib/a.ts': `import type { B } from '../core/b.ts'` },
      'a layer above, on several lines': { 'src/store/a.ts': `import {\n  b,\n  type C,\n} from "../core/b.ts"` },
      'a layer above, lazily': { 'src/core/a.ts': `const { b } = await import('../faces/b.ts')` },
      'a layer above, by re-export': { 'src/core/a.ts': `export * from '../faces/b.ts'` },
      'a layer beside it': { 'src/faces/a.ts': `import { b } from '../resources/b.ts'` },
      'a test': { 'src/lib/a.ts': `import { b } from './b.contract.ts'` },
      'the manifest': { 'src/lib/a.ts': `import manifest from '../../package.json' with { type: 'json' }` },
      'the test support': { 'src/lib/a.ts': `import { b } from '../../test/support/b.ts'` },
      'a layer above, in a test': { 'src/lib/a.test.ts': `import { b } from '../cli/b.ts'` },
      'a folder without a row': { 'src/other/a.ts': '' },
    },
    allows: {
      'src/core/a.ts': `import { z } from 'zod'\nimport { b } from '../lib/b.ts'\nimport { c } from './c.ts'`,
      'src/core/b.ts': `/* import { b } from '../cli/b.ts' */\n// see import('../cli/b.ts')\nconst glob = 'src/**/*.ts'`,
      'src/core/a.test.ts': `import { a } from './a.ts'\nimport { t } from '../../test/support/t.ts'`,
    },
  },
  'plugins are imported only by their list, lists only by daemons, cli, egress and tests': {
    violations: pluginViolations,
    rejects: {
      'a plugin, by another file of the layer': {
        'src/store/table.ts': `import { open } from './sqlite/engine.ts'`,
        'src/store/sqlite/engine.ts': '',
      },
      'a plugin, by another plugin': {
        'src/daemons/webd/daemon.ts': `import { s } from '../gated/socket.ts'`,
        'src/daemons/gated/daemon.ts': '',
      },
      'a list, by a lower layer': { 'src/registry/call.ts': `import { tables } from '../core/index.ts'` },
      'a list as a barrel': { 'src/core/index.ts': `export { a } from './a.ts'` },
    },
    allows: {
      'src/store/index.ts': `import { open } from './sqlite/engine.ts'`,
      'src/store/sqlite/engine.ts': `import { c } from './connection.ts'\nimport type { E } from '../engine.ts'`,
      'src/store/sqlite/engine.test.ts': `import { other } from '../postgres/engine.ts'`,
      'src/cli/main.ts': `const { commands } = await import('./commands/index.ts')`,
    },
  },
  'resources do not import each other': {
    violations: resourceViolations,
    rejects: { 'a resource': { 'src/resources/a.ts': `import type { B } from './b.ts'` } },
    allows: { 'src/resources/index.ts': `import { a } from './a.ts'` },
  },
  'imported packages are dependencies, and only store loads the database driver': {
    violations: packageViolations,
    rejects: {
      pg: {
        'package.json': '{"dependencies": {"pg": "1"}}',
        'src/core/a.ts': `import { type Pool } from 'pg'`,
      },
      'a development dependency': {
        'package.json': '{"devDependencies": {"@x/y": "1"}}',
        'src/lib/a.ts': `import { y } from '@x/y/z'`,
      },
      'types of a development dependency in a layer with declarations': {
        'package.json': '{"devDependencies": {"@x/y": "1"}}',
        'src/lib/a.ts': `import type { Y } from '@x/y/z'`,
      },
    },
    allows: {
      'package.json': '{"dependencies": {"pg": "1"}, "devDependencies": {"@x/y": "1"}}',
      'src/deploy/a.ts': `import type { Y } from '@x/y/z'`,
      'src/core/a.ts': `import type { Pool } from 'pg'\ntype P = typeof import('pg')`,
      'src/store/a.ts': `import { Pool } from 'pg'`,
    },
  },
  'there are no import cycles, not even of types': {
    violations: cycles,
    rejects: {
      'a cycle of types': {
        'src/lib/a.ts': `import { b } from './b.ts'`,
        'src/lib/b.ts': `import type { A } from './a.ts'`,
      },
      'a cycle of three files': {
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
    violations: missingFromLists,
    rejects: {
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
    rejects: {
      'process.env': { 'src/cli/a.ts': 'const home = process.env.HOME' },
      'the env export of node:process': { 'src/cli/a.ts': `import { env } from 'node:process'` },
    },
    allows: { [ENVIRONMENT_READER]: 'process.env', 'src/lib/a.ts': '// process.env is elsewhere' },
  },
  'only one module writes files, so that no agent can redirect a write out of its workspace': {
    violations: (tree) => [...fileWriters(tree), ...staleWriters(tree)],
    rejects: {
      'a write function': { 'src/core/a.ts': `import { mkdir, stat } from 'node:fs/promises'` },
      'a synchronous write function': { 'src/core/a.ts': `import { statSync, unlinkSync } from 'node:fs'` },
      'an import on several lines': {
        'src/core/a.ts': `import {\n  stat,\n  type Stats,\n  rm,\n} from 'node:fs/promises'`,
      },
      'a renamed import': { 'src/core/a.ts': `import { rename as move } from "fs/promises"` },
      'the whole module': { 'src/core/a.ts': `import * as fs from 'node:fs'` },
      'the default export': { 'src/core/a.ts': `import fs, { constants } from 'node:fs'` },
      'fs.promises': { 'src/core/a.ts': `import { promises } from 'node:fs'` },
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
  'only one module parses untrusted JSON, after checking its depth': {
    violations: jsonParsers,
    rejects: {
      'the parser': { 'src/core/a.ts': 'const value: unknown = JSON.parse(text)' },
      'the parser as a value': { 'src/core/a.ts': 'texts.map(JSON.parse)' },
      'bracket notation': { 'src/core/a.ts': `JSON['parse'](text)` },
      'a destructured JSON': { 'src/core/a.ts': 'const { parse } = JSON' },
      'a request body': { 'src/core/a.ts': 'const body: unknown = await request.json()' },
    },
    allows: {
      'src/lib/text/json.ts': 'JSON.parse(text)',
      'src/core/a.ts': `// JSON.parse is elsewhere\nResponse.json({})\nMark.parse(JSON.stringify(mark))`,
      'src/core/a.test.ts': 'JSON.parse(text)',
    },
  },
  'callbacks of the server are inside the fault boundary, so that no exception in one ends the process': {
    violations: unguarded,
    rejects: {
      'a listener of an event': { 'src/daemons/a.ts': `socket.on('data', (chunk) => parse(chunk))` },
      'a method as a listener': {
        'src/cell/a.ts': `class A {\n  start() { this.child.once('exit', () => this.#end()) }\n  #end() { this.report.write() }\n}`,
      },
      'a listener that is declared elsewhere': {
        'src/cell/a.ts': `import { end } from './b.ts'\nchild.on('exit', end)`,
      },
      'a listener of an abort signal': { 'src/lib/a.ts': `signal.addEventListener('abort', () => streams.close())` },
      'a timer': { 'src/core/a.ts': 'setTimeout(() => update(), 10)' },
      'an interval with a named function': {
        'src/store/a.ts': `function poll() {\n  read(1)\n}\nsetInterval(poll, 10)`,
      },
      'a microtask': { 'src/store/a.ts': 'queueMicrotask(callback)' },
      'a server': { 'src/agent-socket/a.ts': 'const server = createServer((socket) => accept(socket))' },
      'a callback of a write': { 'src/daemons/a.ts': 'socket.write(bytes, () => next())' },
      'a line splitter': { 'src/runtimes/a.ts': `stdout.on('data', (text) => lines.push(text))` },
      'a promise that nothing catches': { 'src/daemons/a.ts': 'void flush()' },
      'a promise with a continuation that nothing catches': { 'src/daemons/a.ts': 'void ready.then(() => start())' },
      'an async method that can reject': {
        'src/daemons/a.ts': `class A {\n  start() { void this.#run() }\n  async #run() { await work() }\n}`,
      },
      'an exception inside a catch': {
        'src/daemons/a.ts': `setTimeout(() => {\n  try {\n    a()\n  } catch {\n    b()\n  }\n}, 1)`,
      },
    },
    allows: {
      'src/daemons/a.ts': [
        `socket.on('data', guard(onFault, (chunk) => parse(chunk)))`,
        `socket.on('data', host.faults.guard('stream', parse))`,
        `socket.on('error', () => socket.destroy())`,
        `server.on('error', onBackgroundError)`,
        `signals.on((keys) => read(keys))\nengine.listen(() => check())\ntx.onCommit(() => start())`,
        `app.on('GET', ['/a'], (c) => c.json({}))`,
        'setTimeout(() => clearTimeout(other), 1)',
        `setInterval(() => {\n  try {\n    check()\n  } catch (error) {\n    faults.report('job', error)\n  }\n}, 1)`,
        `void flush().catch(onFault)`,
        `const notify = guard(onFault, listener)\nclient.on('notification', () => notify())`,
      ].join('\n'),
      'src/cli/a.ts': `socket.on('data', (chunk) => parse(chunk))`,
      'src/daemons/a.test.ts': `socket.on('data', (chunk) => parse(chunk))`,
    },
  },
  'regular expressions take linear time, so that no text can stall a process': {
    violations: backtrackingPatterns,
    rejects: {
      'any text before a trimmed tail': { 'src/core/a.ts': String.raw`/^voice:[ \t]*(.*?)[ \t\r]*$/m.exec(text)` },
      'any text before a trimmed tail, with a variable': {
        'src/core/a.ts': `new RegExp(\`^\${key}:[ \\\\t]*(.*?)[ \\\\t\\\\r]*$\`, 'm')`,
      },
      'a trimmed tail': { 'src/core/a.ts': String.raw`text.replace(/\s+$/, '')` },
      'a trimmed tail in an alternative': { 'src/core/a.ts': 'text.replace(/^-+|-+$/g, "")' },
      'white space around an optional part': { 'src/core/a.ts': String.raw`/^a\s*"?b?"?\s*$/` },
      'a loop in a loop': { 'src/core/a.ts': '/^(?:a+)+$/' },
      'two alternatives of a loop with the same text': { 'src/core/a.ts': String.raw`/^(?:\w|[a-z])*$/` },
      'a tag that need not be closed': { 'src/core/a.ts': 'text.replace(/<[^>]*>/g, "")' },
      'a lookahead to the end': { 'src/core/a.ts': '/a(?=.*b)/g' },
      'a constant': { 'src/core/a.ts': `const PART = '\\s*'\nnew RegExp(\`^a\${PART}\${PART}$\`)` },
    },
    allows: {
      'src/core/a.ts': String.raw`/\s+/g; /^(.*)$/s; /^\s*a\s*$/; /<[^<>]*>/g; /^(["'])(.*)\1$/; /\d{1,9}$/; /[ \t]*(.*)$/sy`,
      'src/core/b.ts': String.raw`/[a-z]+(?:\.[a-z]+)*/g; /^[ \t]*(.+)$/gm; /^(?:\w+,)*\w+$/; /"[^"]*"/g`,
      'src/core/b.test.ts': String.raw`/\s+$/`,
    },
  },
  'exported names are unique': {
    violations: repeatedExports,
    rejects: {
      'a type and a function': {
        'src/lib/a.ts': 'export interface Place {}',
        'src/core/b.ts': 'export function Place() {}',
      },
      'two constants': { 'src/lib/a.ts': 'export const LIMIT = 1', 'src/egress/b.ts': 'export const LIMIT = 2' },
      'a plugin and another file': {
        'src/channels/web/adapter.ts': 'export function openChannel() {}',
        'src/lib/a.ts': 'export function openChannel() {}',
      },
    },
    allows: {
      'src/channels/web/adapter.ts': 'export function openChannel() {}',
      'src/channels/sandbox/adapter.ts': 'export function openChannel() {}',
      'src/lib/a.ts': 'export const Thing = 1\nexport type Thing = number',
      'src/lib/b.ts': 'interface Thing {}\nexport async function runProcess() {}',
      'src/egress/c.ts': 'export async function runProcess() {}',
      'src/lib/a.test.ts': 'export const Thing = 2',
    },
  },
  'replaced file names are not used again': {
    violations: retiredNames,
    rejects: { 'a source': { 'src/daemons/lookout.ts': '' }, 'a test': { 'src/egress/patience.test.ts': '' } },
    allows: { 'src/core/links/link-token.ts': '', 'src/lib/visitor.ts': '' },
  },
  'there are no default exports': {
    violations: defaultExports,
    rejects: { 'a default': { 'bench/a.ts': 'export default 1' } },
  },
  'tests of pages do not wait for an expression in a string': {
    violations: awaitedStrings,
    rejects: {
      'a string': { 'test/a.test.ts': `await page.waitForFunction(${"'done'"})` },
      'a template on its own line': { 'test/a.test.ts': `await page.waitForFunction(\n  ${'`done`'},\n)` },
    },
    allows: { 'test/a.test.ts': 'await page.waitForFunction(() => done)' },
  },
  'modules have no variables': {
    violations: moduleVariables,
    rejects: {
      'a variable': { 'src/lib/a.ts': 'let count = 0' },
      'an exported variable': { 'src/lib/a.ts': `import { b } from './b.ts'\n\nexport let count = b` },
      'a destructured variable': { 'src/lib/a.ts': 'let [a, b] = [0, 1]' },
      'a variable of a test': { 'src/lib/a.test.ts': 'let count = 0' },
      var: { 'src/lib/a.ts': 'var count = 0' },
    },
    allows: {
      'src/lib/a.ts': `export function counter() {\n  let count = 0\n  return () => count++\n}\n// let it be`,
      'src/lib/b.ts': 'const letter = 1',
      'test/a.test.ts': 'let count = 0',
    },
  },
  'file names are specific nouns in kebab-case': {
    violations: badNames,
    rejects: {
      'an unspecific noun': { 'src/lib/string-utils.ts': '' },
      'an unspecific folder name': { 'src/lib/helpers/a.ts': '' },
      'a capital letter': { 'src/lib/Table.ts': '' },
    },
    allows: { 'src/lib/data-dir.ts': '', 'src/lib/base64url.test.ts': '' },
  },
}

function ourTree(): Tree {
  const paths = ['package.json', ...globSync('{src,test,bench,bin}/**/*.{ts,js}', { cwd: ROOT })]
  return Object.fromEntries(paths.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]))
}

const ours = ourTree()
for (const [name, { violations, rejects, allows }] of Object.entries(RULES)) {
  suite(name, () => {
    test('holds in this repository', () => assert.deepEqual(violations(ours), []))
    for (const [what, tree] of Object.entries(rejects))
      test(`rejects ${what}`, () => assert.equal(violations(tree).length, 1, violations(tree).join('\n')))
    if (allows) test('allows the rest of the cases', () => assert.deepEqual(violations(allows), []))
  })
}
