// Follows the recipes of docs/architecture.md in a scratch copy of the repository: one new file, one line in a list, and
// `npm run golden`.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { openTools } from './support/socket-client.ts'
import { instance } from './support/svc.ts'
import { tempDir } from './support/temp.ts'
import { until } from './support/until.ts'

const ROOT = dirname(import.meta.dirname)
const TSCONFIG =
  '{"extends": "./tsconfig.json", "include": ["src"], "exclude": ["src/web/browser", "**/*.test.ts", "**/*.contract.ts"]}'
const COPIED = ['src', 'bin', 'packages', 'products', 'package.json', 'tsconfig.json', 'test/golden', 'test/support']

interface Recipe {
  readonly file: string
  readonly text: string
  readonly list: string
  /** The new line goes before this text. */
  readonly before: string
  readonly line: string
  /** The import of the file, for lists that import it. */
  readonly imported?: string
}

const RECIPES: Record<string, Recipe> = {
  resource: {
    file: 'src/resources/notes.ts',
    text: `// Notes of the operators.
import { z } from 'zod'
import { line } from '../core/values.ts'
import { requireInstanceTool } from '../registry/authorization.ts'
import { createVerb, listVerb, removeVerb, updateVerb } from '../registry/crud.ts'
import { defineResource } from '../registry/resource.ts'
import { Table } from '../store/table.ts'

const Note = z.object({ title: line(64), content: line(512) }).meta({ id: 'Notes' })

const notes = new Table({
  name: 'notes',
  row: Note,
  key: 'title',
  storage: ['create table notes (title text primary key, content text not null)'],
})

const label = ({ title }: { title: string }) => \`note \${title}\`

export const notesResource = defineResource({
  of: notes,
  title: 'Notes',
  servedBy: 'routd',
  exported: {},
  verbs: (table) => ({
    list: listVerb(table, 'notes', { authorize: requireInstanceTool, order: [['title', 'asc']], when: 'Read the notes.' }),
    create: createVerb(table, { input: Note, authorize: requireInstanceTool, label, when: 'Write a note.' }),
    update: updateVerb(table, { input: Note.partial({ content: true }), authorize: requireInstanceTool, label }),
    delete: removeVerb(table, { input: Note.pick({ title: true }), authorize: requireInstanceTool, label }),
  }),
})
`,
    list: 'src/resources/index.ts',
    before: ']\n',
    line: '  notesResource,\n',
    imported: `import { notesResource } from './notes.ts'\n`,
  },
  tool: {
    file: 'src/tools/count-words.ts',
    text: `// Counts words.
import { z } from 'zod'
import { requireToolOnOwnFolder } from '../registry/authorization.ts'
import { defineTool } from '../registry/tool.ts'

export const countWordsTools = [
  defineTool({
    name: 'count_words',
    tiers: { max: 1, granted: 1 },
    when: 'Count the words of a text.',
    isReadOnly: true,
    input: z.object({ text: z.string() }),
    output: z.object({ words: z.int() }),
    authorize: requireToolOnOwnFolder,
    run: async (_ctx, { text }) => ({ words: text.split(/\\s+/).length }),
  }),
]
`,
    list: 'src/tools/index.ts',
    before: ']\n',
    line: '  ...countWordsTools,\n',
    imported: `import { countWordsTools } from './count-words.ts'\n`,
  },
  command: {
    file: 'src/cli/commands/hello.ts',
    text: `// Greets an instance.
import { defineSvcCommand } from '../command.ts'

export const helloCommands = [
  defineSvcCommand({
    usage: 'hello <instance>',
    about: 'greet an instance',
    example: 'hello demo',
    run: async (svc, { instance }) => svc.print.line(\`hello \${instance}\`),
  }),
]
`,
    list: 'src/cli/commands/index.ts',
    before: '  help: async',
    line: `  hello: async () => (await import('./hello.ts')).helloCommands,\n`,
  },
  channel: {
    file: 'src/channels/pigeon/adapter.ts',
    text: `// Delivers to a file beside this one.
import { appendFile } from 'node:fs/promises'
import type { Channel, ChannelContext } from '../../core/delivery/channel.ts'
import { hintFor } from '../../core/delivery/platforms.ts'

export function openChannel(_context: ChannelContext): Channel {
  return {
    name: 'pigeon',
    platform: 'pigeon',
    isInternal: false,
    isIdempotent: false,
    actions: {
      send: async ({ jid, content }) => {
        await appendFile(new URL('./delivered.txt', import.meta.url), \`\${jid}: \${content}\\n\`)
        return {}
      },
    },
    hint: (action) => hintFor('pigeon', action),
  }
}
`,
    list: 'src/core/delivery/platforms.ts',
    before: '  telegram: {',
    line: `  pigeon: { channel: 'pigeon', shortName: 'pg' },\n`,
  },
  runtime: {
    file: 'src/runtimes/echo/runtime.ts',
    text: `// Answers with what was said.
import type { Runtime } from '../runtime.ts'
import type { RuntimeContext } from '../runtime-context.ts'

export async function openRuntime(_context: RuntimeContext): Promise<Runtime> {
  return {
    name: 'echo',
    run: async ({ messages }) => ({ result: messages.map(({ text }) => \`echo: \${text}\`).join(' ') }),
    close: async () => undefined,
  }
}
`,
    list: 'src/runtimes/settings.ts',
    before: '] as const',
    line: `, 'echo'`,
  },
}

function follow(scratch: string, { file, text, list, before, line, imported = '' }: Recipe): void {
  mkdirSync(dirname(join(scratch, file)), { recursive: true })
  writeFileSync(join(scratch, file), text)
  const listed = readFileSync(join(scratch, list), 'utf8')
  const at = before.startsWith(']') && imported !== '' ? listed.lastIndexOf(before) : listed.indexOf(before)
  assert.ok(at > 0, `${list} does not contain ${before}`)
  const [head, ...rest] = [listed.slice(0, at), line, listed.slice(at)]
  // The import goes below the first line, which is the file comment.
  const below = head.indexOf('\n') + 1
  writeFileSync(join(scratch, list), [head.slice(0, below), imported, head.slice(below), ...rest].join(''))
}

test('each recipe needs one new file and one line', async (t) => {
  const scratch = tempDir(t)
  for (const path of COPIED) cpSync(join(ROOT, path), join(scratch, path), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(scratch, 'node_modules'))
  for (const recipe of Object.values(RECIPES)) follow(scratch, recipe)
  const inScratch = (...args: string[]) => promisify(execFile)(process.execPath, args, { cwd: scratch })
  await inScratch('test/golden/write.ts')
  const demo = await instance(t, {}, join(scratch, 'bin/svc.js'))
  const svc = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await demo.run(...args)
    assert.equal(code, 0, `svc ${args.join(' ')}: ${stderr}`)
    return stdout
  }
  await svc('group', 'demo', 'add', 'sandbox:lobby', 'team')
  await svc('group', 'demo', 'add', 'sandbox:attic', 'team/a/b')
  const { urls } = await demo.serve()
  const toolsOf = (folder: string) => openTools(t, join(demo.root, 'ipc', folder, 'gated.sock'))

  await t.test('the files and lines pass the type check', async () => {
    writeFileSync(join(scratch, 'tsconfig.recipes.json'), TSCONFIG)
    const touched = Object.values(RECIPES).flatMap(({ file, list }) => [file, list])
    await inScratch(join(ROOT, 'test/check.ts'), '--types', 'tsconfig.recipes.json', ...touched)
  })

  await t.test('a resource answers over REST, as a tool and in the export', async () => {
    await svc('group', 'demo', 'grant', 'github:42', '**')
    const headers = {
      Authorization: `Bearer ${(await svc('bearer', 'demo', 'github:42')).trim()}`,
      'Content-Type': 'application/json',
    }
    const ask = async (method: string, path: string, body?: object) => {
      const answer = await fetch(`${urls.get('proxyd')}/v1/notes${path}`, {
        method,
        headers,
        ...(body ? { body: JSON.stringify(body) } : {}),
      })
      return [answer.status, await answer.text()] as const
    }
    assert.deepEqual(await ask('POST', '', { title: 'a', content: 'one' }), [201, '{"title":"a","content":"one"}'])
    assert.equal((await ask('POST', '', { title: 'a', content: 'one' }))[0], 409)
    assert.deepEqual(await ask('PATCH', '/a', { content: 'two' }), [200, '{"title":"a","content":"two"}'])
    assert.deepEqual(await ask('GET', ''), [200, '{"notes":[{"title":"a","content":"two"}]}'])
    const tools = await toolsOf('main')
    assert.deepEqual((await tools.call('notes.list')).json, { notes: [{ title: 'a', content: 'two' }] })
    assert.match(await svc('export', 'demo'), /title: a\n\s+content: two/)
    assert.equal((await ask('DELETE', '/a'))[0], 204)
    assert.equal((await ask('DELETE', '/a'))[0], 404)
    assert.match(readFileSync(join(scratch, 'test/golden/openapi/routd.json'), 'utf8'), /\/v1\/notes/)
  })

  await t.test('a tool is listed and callable only in its declared tiers', async () => {
    const [inner, guest] = [await toolsOf('team'), await toolsOf('team/a/b')]
    assert.deepEqual((await inner.call('count_words', { text: 'one two' })).json, { words: 2 })
    const isListed = async (tools: typeof inner) => (await tools.list()).some(({ name }) => name === 'count_words')
    assert.deepEqual([await isListed(inner), await isListed(guest)], [true, false])
    await assert.rejects(guest.call('count_words', { text: 'one two' }), /unknown tool/)
  })

  await t.test('a command runs and is listed in help', async () => {
    assert.equal(await svc('hello', 'demo'), 'hello demo\n')
    assert.match(await svc('help'), /hello +<instance>/)
    assert.match(await svc('help', 'hello'), /greet an instance/)
  })

  await t.test('a channel delivers, and no adapter can register its platform', async () => {
    const { isError, text } = await (await toolsOf('main')).call('send', { chatJid: 'pigeon:coop', text: 'grain' })
    assert.equal(isError, false, text)
    const file = join(scratch, 'src/channels/pigeon/delivered.txt')
    await until(() => readFileSync(file, 'utf8') === 'pigeon:coop: grain\n')
    assert.match((await demo.run('channel', 'demo', 'add', 'loft', '--platforms', 'pigeon')).stderr, /reserved for svc/)
  })

  await t.test('a runtime runs a turn', async () => {
    await svc('group', 'demo', 'set', 'team', 'runtime', 'echo')
    const answered = JSON.parse(await svc('sandbox', 'demo', 'say', 'lobby', 'mia', 'hi', '--wait', '--json'))
    assert.equal(answered.answers[0].content, 'echo: hi')
  })
})
