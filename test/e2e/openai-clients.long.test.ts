// Real OpenAI clients at a link: real processes, an agent that prints word by word, and the packages that people use.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, streamText } from 'ai'
import OpenAI from 'openai'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { needs, nodeClients, pythonClient } from '../support/needs.ts'
import { tempDir } from '../support/temp.ts'

const KEY = 'not-checked-at-a-link'
const WORDS = ['one', 'two', 'three']
const PROGRAM = `for word in ${WORDS.join(' ')}; do printf '%s ' "$word"; sleep 0.2; done; printf '%s' "$SVC_TEXT"`

interface Said {
  readonly role: 'user' | 'assistant' | 'system'
  readonly content: string
}

interface ClientUnderTest {
  complete(messages: Said[]): Promise<string>
  /** The pieces as they come. */
  stream(messages: Said[]): Promise<string[]>
}

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = []
  for await (const item of items) all.push(item)
  return all
}

const CLIENTS: Readonly<Record<string, (baseURL: string) => ClientUnderTest>> = {
  'openai, chat completions': (baseURL) => {
    const client = new OpenAI({ apiKey: KEY, baseURL })
    return {
      complete: async (messages) => {
        const answer = await client.chat.completions.create({ model: 'gpt-5', messages })
        assert.equal(answer.choices[0]?.finish_reason, 'stop')
        return answer.choices[0]?.message.content ?? ''
      },
      stream: async (messages) => {
        const options = { stream: true, stream_options: { include_usage: true } } as const
        const chunks = await collect(await client.chat.completions.create({ model: 'gpt-5', messages, ...options }))
        assert.deepEqual(chunks.at(-1)?.usage, { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 })
        return chunks.flatMap(({ choices }) => choices[0]?.delta.content || [])
      },
    }
  },
  'openai, responses': (baseURL) => {
    const client = new OpenAI({ apiKey: KEY, baseURL })
    return {
      complete: async (input) => (await client.responses.create({ model: 'gpt-5', input })).output_text,
      stream: async (input) => {
        const stream = client.responses.stream({ model: 'gpt-5', input })
        const pieces: string[] = []
        for await (const event of stream) if (event.type === 'response.output_text.delta') pieces.push(event.delta)
        assert.equal((await stream.finalResponse()).output_text, pieces.join(''))
        return pieces
      },
    }
  },
  'ai with @ai-sdk/openai-compatible': (baseURL) => {
    const model = createOpenAICompatible({ name: 'svc', apiKey: KEY, baseURL })('main')
    const split = (messages: Said[]) => ({
      model,
      system: messages.find(({ role }) => role === 'system')?.content ?? '',
      messages: messages.flatMap(({ role, content }) => (role === 'system' ? [] : [{ role, content }])),
    })
    return {
      complete: async (messages) => (await generateText(split(messages))).text,
      stream: async (messages) => {
        const { textStream, finishReason } = streamText(split(messages))
        const pieces = await collect(textStream)
        assert.equal(await finishReason, 'stop')
        return pieces
      },
    }
  },
}

/** What the test uses of LangChain. */
interface LangChain {
  readonly ChatOpenAI: new (options: {
    readonly apiKey: string
    readonly model: string
    readonly configuration: { readonly baseURL: string }
  }) => {
    invoke(pairs: readonly (readonly [string, string])[]): Promise<{ readonly text: string }>
    stream(pairs: readonly (readonly [string, string])[]): Promise<AsyncIterable<{ readonly text: string }>>
  }
}

async function openLangChain(baseURL: string): Promise<ClientUnderTest> {
  const path = createRequire(nodeClients()).resolve('@langchain/openai')
  const { ChatOpenAI }: LangChain = await import(pathToFileURL(path).href)
  const model = new ChatOpenAI({ apiKey: KEY, model: 'main', configuration: { baseURL } })
  const pairs = (messages: Said[]) => messages.map(({ role, content }) => [role, content] as const)
  return {
    complete: async (messages) => (await model.invoke(pairs(messages))).text,
    stream: async (messages) => (await collect(await model.stream(pairs(messages)))).flatMap(({ text }) => text || []),
  }
}

async function openAgent(t: TestContext) {
  const on = await openLinkedInstance(t, 'sqlite', { AGENT_RUNTIME: 'command', AGENT_COMMAND: PROGRAM })
  const link = await on.mintChat()
  const served = await on.start()
  const topics = async (): Promise<unknown[]> =>
    (await on.query("select topic from messages where direction = 'in' order by seq")).map(({ topic }) => topic)
  return { on, link, baseURL: served.chat(link, 'v1'), topics }
}

const answerTo = (content: string): string => [...WORDS, content].join(' ')
const user = (content: string): Said => ({ role: 'user', content })

test('real clients get whole and streamed answers, and their conversations stay in one topic', async (t) => {
  const { baseURL, topics } = await openAgent(t)
  for (const [name, open] of Object.entries(CLIENTS)) await converse(name, open(baseURL), topics)
})

test('LangChain gets the same', needs('langchain'), async (t) => {
  const { baseURL, topics } = await openAgent(t)
  await converse('LangChain', await openLangChain(baseURL), topics)
})

async function converse(name: string, client: ClientUnderTest, topics: () => Promise<unknown[]>): Promise<void> {
  const before = (await topics()).length
  const first = [{ role: 'system', content: 'Be brief.' } as const, user(`hello from ${name}`)]
  const answer = await client.complete(first)
  assert.equal(answer, answerTo(`hello from ${name}`), name)
  const second = [...first, { role: 'assistant', content: answer } as const, user('and now?')]
  const pieces = await client.stream(second)
  assert.ok(pieces.length >= 2, `${name}: ${JSON.stringify(pieces)}`)
  assert.equal(pieces.join(''), answerTo('and now?'), name)
  const third = [...second, { role: 'assistant', content: pieces.join('') } as const, user('more')]
  const [one, other] = await Promise.all([client.complete(third), client.complete(third)])
  assert.deepEqual([one, other], [answerTo('more'), answerTo('more')], name)
  const mine = (await topics()).slice(before)
  assert.equal(mine.length, 3, `${name}: equal requests are one message`)
  assert.equal(new Set(mine).size, 1, `${name}: ${JSON.stringify(mine)}`)
}

test('real clients list the model, and report refusals by their sentence', async (t) => {
  const { baseURL, on, link } = await openAgent(t)
  const client = new OpenAI({ apiKey: KEY, baseURL })
  const { data } = await client.models.list()
  assert.deepEqual(
    data.map(({ id }) => id),
    ['main'],
  )
  assert.equal((await client.models.retrieve('main')).owned_by, 'svc')
  const tool = { type: 'function', function: { name: 'f', parameters: {} } } as const
  const withTools = client.chat.completions.create({ model: 'x', messages: [user('hi')], tools: [tool] })
  await assert.rejects(withTools, (error: unknown) => {
    assert.ok(error instanceof OpenAI.BadRequestError)
    assert.deepEqual([error.status, error.param, error.type], [400, 'tools', 'invalid_request_error'])
    assert.match(error.message, /tools of the client are not supported/)
    return true
  })
  await on.run('token', 'demo', 'revoke', link.jid)
  const refusals = Object.entries(CLIENTS).map(async ([name, open]) => {
    await assert.rejects(open(baseURL).complete([user('hi')]), /there is no such link, or it was revoked/, name)
  })
  await Promise.all(refusals)
})

/** Returns what the program prints. Its standard input is empty. */
async function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const running = promisify(execFile)(pythonClient(program), args, { env })
  running.child.stdin?.end()
  return (await running).stdout
}

test('real clients in Python get the same', needs('python clients'), async (t) => {
  const { baseURL, topics } = await openAgent(t)
  const env = { PATH: process.env.PATH, LITELLM_LOCAL_MODEL_COST_MAP: 'True' }
  const ask = async (client: string) => {
    const script = join(import.meta.dirname, '../support/openai-clients.py')
    return JSON.parse(await run('python', [script, client, baseURL], env))
  }
  assert.deepEqual(await ask('models'), ['main'])
  const [param, message] = await ask('refusal')
  assert.equal(param, 'tools')
  assert.match(message, /^tools of the client are not supported/)
  for (const client of ['chat_openai', 'responses_openai', 'litellm']) {
    const before = (await topics()).length
    const [whole, pieces]: string[][] = await ask(client)
    assert.equal(whole?.join(''), answerTo(`hello from ${client}`), client)
    assert.ok(pieces && pieces.length >= 2, `${client}: ${JSON.stringify(pieces)}`)
    assert.equal(pieces.join(''), answerTo('and now?'), client)
    const mine = (await topics()).slice(before)
    assert.deepEqual([mine.length, new Set(mine).size], [2, 1], client)
  }
})

test('llm, a command line in Python, goes on with a conversation', needs('python clients'), async (t) => {
  const { baseURL, topics } = await openAgent(t)
  const LLM_USER_PATH = tempDir(t)
  const model = [`- model_id: svc`, `  model_name: main`, `  api_base: ${baseURL}`, '']
  writeFileSync(join(LLM_USER_PATH, 'extra-openai-models.yaml'), model.join('\n'))
  const env = { PATH: process.env.PATH, LLM_USER_PATH }
  const llm = async (...args: string[]) => (await run('llm', [...args, '--key', KEY], env)).trim()
  assert.equal(await llm('-m', 'svc', 'hello'), answerTo('hello'))
  assert.equal(await llm('-c', 'and now?'), answerTo('and now?'))
  assert.equal(await llm('-c', 'more', '--no-stream'), answerTo('more'))
  const mine = await topics()
  assert.deepEqual([mine.length, new Set(mine).size], [3, 1])
})
