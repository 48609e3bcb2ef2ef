import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { suite, type TestContext, test } from 'node:test'
import { agentDir } from '../../../test/support/agent-files.ts'
import {
  type ChatEndpoint,
  chatEndpoint,
  replyError,
  replyModels,
  replyWhole,
} from '../../../test/support/chat-endpoint.ts'
import { type Cli, demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'

const KEY = 'sk-the-key-of-the-test'
const MODELS = ['large', 'qwen3:32b', 'qwen3:8b', 'small']

async function startEndpoint(t: TestContext, models: readonly string[] = MODELS): Promise<ChatEndpoint> {
  const endpoint = await chatEndpoint(t)
  endpoint.answer(replyModels(models, replyWhole('Hello!')))
  return endpoint
}

/** The URL of a port on which no server listens. */
async function findClosedUrl(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return `http://127.0.0.1:${port}/v1`
}

/** The settings in the store, with a word in place of secrets. */
async function readStored(cli: Cli): Promise<ReadonlyMap<string, string>> {
  const listed: { key: string; value: string; origin: string }[] = JSON.parse(await cli.ok('settings demo --json'))
  return new Map(listed.filter(({ origin }) => origin === 'the store').map(({ key, value }) => [key, value]))
}
const showJson = async (cli: Cli, folder = ''): Promise<Record<string, unknown>> =>
  JSON.parse(await cli.ok(`model demo ${folder} show --json`.replace('  ', ' ')))

onEveryEngine('svc model', (engine) => {
  test('makes one real call, then sets endpoint and model in the store, whatever .env says', async (t) => {
    const cli = await demoCliOn(t, engine)
    const path = join(cli.root, '.env')
    writeFileSync(path, 'OPENAI_MODEL=other\nOPENAI_PRICE_INPUT=7\nOPENAI_PRICE_OUTPUT=8\n', { flag: 'a' })
    const before = readFileSync(path, 'utf8')
    const { url, asked } = await startEndpoint(t)
    const output = await cli.ok(`model demo --base-url ${url}/ --model small`)
    assert.match(
      output,
      new RegExp(`^small at ${url} answered in \\d+\\.\\d s: Hello!\nset small at ${url} for the instance: `),
    )
    assert.match(output, /A running instance uses it from the next turn on\.\n$/)
    const [call] = asked
    assert.deepEqual(
      [call?.url, call?.body.model, call?.headers.authorization],
      ['/v1/chat/completions', 'small', undefined],
    )
    assert.equal(call?.body.tools?.length, 1, 'a model that takes no tools would fail in every turn')
    assert.equal(readFileSync(path, 'utf8'), before)
    const stored = await readStored(cli)
    const { size } = stored
    const values = ['AGENT_RUNTIME', 'OPENAI_BASE_URL', 'OPENAI_MODEL', 'OPENAI_API_KEY'].map((name) =>
      stored.get(name),
    )
    assert.deepEqual([size, ...values], [7, 'openai', url, 'small', ''])
    assert.match(await cli.ok('model demo show'), /price: +not known/, 'no price of another model in .env')
    const { runtime, endpoint, model, key } = await showJson(cli, 'main')
    assert.deepEqual([runtime, endpoint, model, key], ['openai', url, 'small', 'not set'])
    assert.match(await cli.ok('model demo --runtime demo'), /^set the built-in demo for the instance/)
    assert.equal((await showJson(cli)).runtime, 'demo')
  })

  test('encrypts the key in the store for this endpoint only and never prints it', async (t) => {
    const cli = await demoCliOn(t, engine)
    const { url, asked } = await startEndpoint(t)
    const set = await cli.run(`model demo --base-url ${url} --model small --key -`, { stdin: `${KEY}\n` })
    assert.equal(set.code, 0, set.stderr)
    assert.equal(asked[0]?.headers.authorization, `Bearer ${KEY}`)
    assert.equal((await readStored(cli)).get('OPENAI_API_KEY'), 'in the store, encrypted')
    assert.equal((await showJson(cli)).key, 'set')
    const tested = await cli.run('model demo test')
    assert.equal(asked.at(-1)?.headers.authorization, `Bearer ${KEY}`)
    const changed = await cli.run('model demo --model large')
    assert.equal(asked.at(-1)?.headers.authorization, `Bearer ${KEY}`, 'another model keeps the key')
    const texts = [set, tested, changed].map(({ stdout, stderr }) => stdout + stderr)
    assert.doesNotMatch([...texts, readFileSync(join(cli.root, '.env'), 'utf8')].join(), new RegExp(KEY))
    const other = await startEndpoint(t)
    await cli.ok(`model demo --base-url ${other.url} --model small`)
    assert.equal(other.asked.at(-1)?.headers.authorization, undefined, 'a key is never sent to another endpoint')
    assert.equal((await readStored(cli)).get('OPENAI_API_KEY'), '')
  })

  test('writes the model of a folder to its config and secrets and keeps that of the instance', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add sandbox:lobby team')
    await cli.ok('group demo add sandbox:inner team/sub')
    const [instance, own] = [await startEndpoint(t), await startEndpoint(t)]
    await cli.ok(`model demo --base-url ${instance.url} --model small --key -`, { stdin: 'sk-instance' })
    await cli.ok('model demo team --model large')
    assert.deepEqual((await showJson(cli, 'team')).model, 'large')
    assert.equal(instance.asked.at(-1)?.headers.authorization, 'Bearer sk-instance')
    assert.match(await cli.ok('secret demo list team', { terminal: false }), /^$/)
    await cli.ok(`model demo team --base-url ${own.url} --model qwen3:8b --key -`, { stdin: KEY })
    const { endpoint, model, key, model_from } = await showJson(cli, 'team')
    assert.deepEqual([endpoint, model, key, model_from], [own.url, 'qwen3:8b', 'set', 'secrets of team'])
    await cli.ok('model demo team test')
    assert.equal(own.asked.at(-1)?.headers.authorization, `Bearer ${KEY}`)
    assert.deepEqual((await showJson(cli, 'team/sub')).endpoint, own.url, 'folders below inherit the endpoint')
    assert.equal((await showJson(cli)).endpoint, instance.url)
    await cli.ok(`model demo team --base-url ${instance.url} --model small`)
    assert.equal(instance.asked.at(-1)?.headers.authorization, undefined, 'never the key of another level')
    await cli.ok('model demo team --runtime demo')
    assert.equal((await showJson(cli, 'team')).runtime, 'demo')
    assert.equal((await showJson(cli)).runtime, 'openai')
  })
})

/** What a refused command prints. It changes nothing and never shows the key. */
async function refusal(cli: Cli, line: string, stdin = ''): Promise<string> {
  const before = readFileSync(join(cli.root, '.env'), 'utf8')
  const { code, stdout, stderr } = await cli.run(line, { stdin })
  assert.deepEqual([code, stdout], [1, ''], stderr)
  assert.equal(readFileSync(join(cli.root, '.env'), 'utf8'), before)
  assert.doesNotMatch(stderr, new RegExp(KEY))
  return stderr
}

suite('svc model refuses, and writes nothing', () => {
  test('an endpoint without a server, unless --no-test is given', async (t) => {
    const cli = await demoCli(t)
    const line = `model demo --base-url ${await findClosedUrl()} --model small`
    assert.match(await refusal(cli, line), /\/v1 refused the connection: no server is running there\n/)
    assert.match(await cli.ok(`${line} --no-test`), /^set small at /)
    assert.equal((await readStored(cli)).get('OPENAI_MODEL'), 'small')
  })

  test('a rejected key, an unknown model and invalid responses', async (t) => {
    const cli = await demoCli(t)
    const endpoint = await chatEndpoint(t)
    const line = `model demo --base-url ${endpoint.url} --model qwen3 --key -`
    const html = replyError(200, '<html>', { 'content-type': 'text/html' })
    const unknown = replyModels(MODELS, replyError(404, { message: 'model "qwen3" not found, try pulling it first' }))
    const cases: [Parameters<ChatEndpoint['answer']>[0], RegExp][] = [
      [replyError(401, { message: `Incorrect API key provided: ${KEY}` }), /\/v1 rejected the key \(401\)\n/],
      [unknown, /\/v1 has no model "qwen3"\nhint: it has qwen3:32b, qwen3:8b\n/],
      [replyError(500, { message: `oops, not with ${KEY}` }), /\/v1 responded with 500: oops, not with …\n/],
      [
        replyError(400, { message: 'small does not support tools' }),
        /\/v1 responded with 400: small does not support tools\n/,
      ],
      [html, /response of \S+\/v1 is not JSON \(text\/html\)\nhint: the URL usually ends with \/v1\n/],
      [replyError(200, '{"ok":true}'), /response of \S+\/v1 has no choices\n/],
    ]
    for (const [reply, sentence] of cases) {
      endpoint.answer(reply)
      assert.match(await refusal(cli, line, KEY), sentence)
    }
  })

  test('wrong flags, and a key on the command line, which it does not repeat', async (t) => {
    const cli = await demoCli(t)
    const cases: Record<string, RegExp> = {
      'model demo': /^svc: nothing to set: prompts need a terminal.*\nhint: svc model demo --runtime openai --base-url/,
      'model demo absent': /nothing to set|there is no group absent/,
      'model demo absent --runtime demo': /there is no group absent/,
      'model demo --runtime gpt': /--runtime must be one of demo, command, claude, openai/,
      'model demo --model small': /--runtime is missing/,
      'model demo --runtime demo --model small': /not for demo/,
      'model demo --runtime openai --command x': /--command is for the runtime command/,
      'model demo --runtime command': /--command is missing/,
      'model demo --base-url ftp://x --model m': /must look like https:\/\/host\/v1/,
      'model demo --base-url http://u:p@127.0.0.1/v1 --model m': /must not contain a password/,
      [`model demo --runtime openai --key ${KEY}`]: /would stay in the shell history: --key - reads it from stdin/,
    }
    for (const [line, sentence] of Object.entries(cases)) assert.match(await refusal(cli, line), sentence, line)
    assert.match(await refusal(cli, 'model demo --runtime claude --key -', 'a b'), /must be one word of ASCII/)
    assert.match(await refusal(cli, 'model demo --runtime openai --key -', '\n'), /the key is empty/)
  })
})

suite('the price of a model', () => {
  test('is stated with --price, kept with its model, and said where a cap exists', async (t) => {
    const cli = await demoCli(t)
    const { url } = await startEndpoint(t)
    const set = (more: string) => cli.run(`model demo --base-url ${url} --no-test ${more}`)
    const prices = async () => {
      const stored = await readStored(cli)
      return ['OPENAI_PRICE_INPUT', 'OPENAI_PRICE_CACHED', 'OPENAI_PRICE_OUTPUT'].map((key) => stored.get(key))
    }
    assert.match((await set('--model small --price 0.5/0.05/1.5')).stdout, /price: \$0\.5 input, .* as stated/)
    assert.deepEqual(await prices(), ['50', '5', '150'])
    await set('--model small')
    assert.deepEqual(await prices(), ['50', '5', '150'])
    // It was the price of another model.
    const other = await set('--model tiny')
    assert.deepEqual(await prices(), ['', '', ''])
    assert.match(other.stderr, /no price is known for tiny at/)
    assert.match((await set('--model gpt-5-mini-2025-08-07')).stdout, /gpt-5-mini in the table of 20/)
    await set('--model tiny')
    const capped = await cli.run('budget demo set folder main --daily 5')
    assert.match(
      capped.stderr,
      /no price is known for tiny at \S+, so turns of main count no cost and no cap limits them/,
    )
    assert.match((await cli.run('budget demo show folder main')).stdout, /not counted.*no price is known for tiny/)
    assert.match(
      (await cli.run('model demo show')).stdout,
      /price.*not known[\s\S]*the caps of main do not limit its turns/,
    )
    assert.match((await cli.run('doctor demo')).stdout, /prices.*caps that do not limit all turns: main/)
    await set('--model tiny --price free')
    assert.doesNotMatch((await cli.run('budget demo show folder main')).stdout, /not counted/)
    assert.equal((await cli.run('budget demo set folder main --daily 6')).stderr, '')
    assert.match((await cli.run('doctor demo')).stdout, /no cap depends on a price that is not known/)
    assert.match(
      await refusal(cli, `model demo --base-url ${url} --model tiny --price cheap`),
      /price must be dollars per million/,
    )
    assert.deepEqual(await prices(), ['0', '0', '0'])
    assert.match(await refusal(cli, 'model demo --runtime claude --price free'), /Claude Code reports what it costs/)
  })
})

suite('svc model on a terminal', () => {
  test('prompts for URL, key and model, and filters the list by typed text', async (t) => {
    const cli = await demoCli(t)
    const endpoint = await chatEndpoint(t)
    const wrong = replyError(401, { message: 'no' })
    endpoint.answer((response, asked) =>
      asked.headers.authorization === `Bearer ${KEY}`
        ? replyModels(MODELS, replyWhole('Hello!'))(response, asked)
        : wrong(response, asked),
    )
    const typed = ['99', '8', 'nonsense', endpoint.url, 'sk-wrong', KEY, 'qwen', '1', 'cheap', 'free']
    const { code, stdout, stderr } = await cli.run('model demo', { typed })
    assert.equal(code, 0, stderr)
    assert.match(stderr, / {2}1 {2}Ollama {13}http:\/\/127\.0\.0\.1:11434\/v1/)
    assert.match(stderr, /type a number from 1 to 10/)
    assert.match(stderr, /must look like https:\/\/host\/v1/)
    assert.match(stderr, /rejected the key \(401\)/)
    assert.match(stderr, / {2}1 {2}qwen3:32b\n {3}2 {2}qwen3:8b\nModel/)
    assert.match(stdout, /^qwen3:32b at \S+ answered in /)
    assert.doesNotMatch(stdout + stderr, new RegExp(`${KEY}|sk-wrong`))
    assert.match(stderr, /No price is known for qwen3:32b\. [\s\S]*the price must be dollars per million tokens/)
    assert.match(stdout, /price: free, as stated/)
    const stored = await readStored(cli)
    assert.deepEqual([stored.get('OPENAI_MODEL'), stored.get('OPENAI_PRICE_OUTPUT')], ['qwen3:32b', '0'])
    // An endpoint that is free is free for all of its models.
    const again = await cli.run('model demo', { typed: ['8', endpoint.url, '', 'smal'] })
    assert.match(again.stderr, /Key \(Enter keeps the current one\):\n[\s\S]*→ small\n/)
    assert.equal((await readStored(cli)).get('OPENAI_MODEL'), 'small')
  })

  test('prompts for a name if the endpoint lists no models, and stops if it cannot be reached', async (t) => {
    const cli = await demoCli(t)
    const endpoint = await chatEndpoint(t)
    const hello = replyWhole('Hello!')
    const unlisted = replyError(404, 'no such page')
    endpoint.answer((response, asked) => (asked.url.endsWith('/models') ? unlisted : hello)(response, asked))
    const { code, stderr } = await cli.run('model demo', { typed: ['8', endpoint.url, 'mine', ''] })
    assert.equal(code, 0, stderr)
    assert.match(stderr, /responded with 404: no such page\nModel:\n/)
    assert.match(
      stderr,
      /no price is known for mine at \S+, so its turns count no cost and no cap limits them; svc model demo --price/,
    )
    const unreachable = await cli.run('model demo', { typed: ['8', await findClosedUrl(), 'mine'] })
    assert.equal(unreachable.code, 1)
    assert.match(unreachable.stderr, /\nsvc: \S+\/v1 refused the connection: no server is running there\n$/)
    assert.equal((await readStored(cli)).get('OPENAI_BASE_URL'), endpoint.url)
  })

  test('accepts an unlisted name after confirmation, and changes nothing when stopped', async (t) => {
    const cli = await demoCli(t)
    const { url, asked } = await startEndpoint(t)
    const stopped = await cli.run('model demo', { typed: ['8', url, 'qwen3:7b', 'n'] })
    assert.deepEqual([stopped.code, stopped.stderr.includes('similar: qwen3:32b, qwen3:8b')], [1, true])
    assert.match(stopped.stderr, /svc: stopped: nothing was changed\n$/)
    assert.equal((await readStored(cli)).get('OPENAI_MODEL'), undefined)
    const { code } = await cli.run('model demo', { typed: ['8', url, 'other', 'y', '1/2'] })
    assert.deepEqual([code, asked.at(-1)?.body.model], [0, 'other'])
  })
})

suite('svc model with a program', needs('open checkout'), () => {
  const STAND_IN = join(import.meta.dirname, '..', '..', '..', 'test', 'support', 'agent-cli.ts')

  test('runs it once as turns do, and reports a missing or failing program', async (t) => {
    const cli = await demoCli(t)
    const env = { SANDBOX: 'none' }
    const missing = await cli.run(['model', 'demo', '--command', './agent.sh --brief'], { env })
    assert.match(missing.stderr, /^svc: the program \.\/agent\.sh does not exist or cannot be executed\n/)
    const path = join(cli.root, 'groups/main/agent.sh')
    writeFileSync(path, '#!/bin/sh\nread -r line\necho "heard $line"\n')
    assert.match((await cli.run(['model', 'demo', '--command', './agent.sh'], { env })).stderr, /cannot be executed/)
    chmodSync(path, 0o755)
    const output = await cli.ok(['model', 'demo', '--command', './agent.sh'], { env })
    assert.match(output, /^the program \.\/agent\.sh answered in \d+\.\d s: heard Say hello in one short sentence\.\n/)
    assert.equal((await readStored(cli)).get('AGENT_COMMAND'), './agent.sh')
    const failing = await cli.run(['model', 'demo', 'main', '--command', 'echo broken >&2; exit 3'], { env })
    assert.match(failing.stderr, /^svc: a run in main failed: broken\n/)
    assert.equal((await showJson(cli, 'main')).command, './agent.sh')
  })

  test('gives it a tool socket as in a turn: its reply is the answer, and no tool changes anything', async (t) => {
    const cli = await demoCli(t)
    await cli.ok('group demo add sandbox:lobby team')
    const toolUser = join(dirname(STAND_IN), 'tool-user.ts')
    const answerTo = async (tool: string, args: object): Promise<string> => {
      const command = `echo '/tool ${tool} ${JSON.stringify(args)}' | '${process.execPath}' '${toolUser}'`
      const run = ['model', 'demo', 'team', '--command', command, '--json']
      return JSON.parse(await cli.ok(run, { env: { SANDBOX: 'none' } })).answer
    }
    assert.equal(await answerTo('reply', { chatJid: 'sandbox:lobby', text: 'by its tool' }), 'by its tool')
    const refused = 'set_group_open: this run only tests the model hint: answer without tools'
    assert.equal(await answerTo('set_group_open', { folder: 'team', open: false }), refused)
    assert.deepEqual(JSON.parse(await cli.ok('messages demo --json')), [])
  })

  test('sets Claude Code with its key', async (t) => {
    const cli = await demoCli(t)
    const program = join(agentDir(t), 'client')
    writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${STAND_IN}' "$@"\n`, { mode: 0o755 })
    const seen = [program, STAND_IN, process.execPath].map((path) => dirname(path)).join(':')
    const env = { SANDBOX: 'none', AGENT_CLI: program, SANDBOX_PATHS: seen }
    const keyless = await cli.run('model demo --runtime claude', { env })
    assert.match(keyless.stderr, /^svc: no key is set for Claude Code\n/)
    const output = await cli.ok('model demo --runtime claude --model opus --key -', { env, stdin: 'sk-ant-oat01-x' })
    assert.match(output, /^Claude Code with opus answered in \d+\.\d s: you said Say hello/)
    const { AGENT_RUNTIME, AGENT_MODEL, CLAUDE_CODE_OAUTH_TOKEN, ANTHROPIC_API_KEY } = Object.fromEntries(
      await readStored(cli),
    )
    assert.deepEqual(
      [AGENT_RUNTIME, AGENT_MODEL, CLAUDE_CODE_OAUTH_TOKEN, ANTHROPIC_API_KEY],
      ['claude', 'opus', 'in the store, encrypted', ''],
    )
  })
})

test('audits who set a model, without the key', async (t) => {
  const cli = await demoCli(t)
  const { url } = await startEndpoint(t)
  await cli.ok(`model demo --base-url ${url} --model small --key -`, { stdin: KEY })
  await cli.ok(`model demo main --base-url ${url} --model small --key -`, { stdin: KEY })
  const db = new DatabaseSync(join(cli.root, 'store/svc.db'), { readOnly: true })
  t.after(() => db.close())
  const rows = db.prepare(`select action, params_summary from audit where resource = 'model_keys' order by id`).all()
  assert.deepEqual(
    rows.map(({ action }) => action),
    ['model_keys.set', 'model_keys.set_instance', 'model_keys.set_folder'],
  )
  assert.doesNotMatch(JSON.stringify(rows), new RegExp(KEY))
})
