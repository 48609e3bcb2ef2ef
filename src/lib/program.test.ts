import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { type Command, command, misuse, runProgram } from './program.ts'
import { refuse } from './refusal.ts'

const declared = <const U extends string>(usage: U, run: () => Promise<number>): Command<undefined> =>
  command({ usage, about: 'x', example: usage, run })

const COMMANDS = {
  proxy: async () => [declared('proxy serve [--listen <addr>]', async () => 7)],
  no: async () => [declared('no', async () => refuse('conflict', 'it is taken', 'take another'))],
  wrong: async () => [declared('wrong', async () => misuse('these two exclude each other', 'leave one out'))],
  broken: async () => [declared('broken', () => Promise.reject(new Error('oh')))],
}

async function typed(...argv: string[]) {
  const said = { stdout: '', stderr: '' }
  const out = (name: 'stdout' | 'stderr') => ({
    isTerminal: false,
    write: (text: string) => {
      said[name] += text
    },
  })
  const run = async (one: Command<undefined>): Promise<number> => (await one.run(undefined, {})) ?? 0
  const program = { name: 'prog', commands: COMMANDS, misuse: 2, run }
  return { code: await runProgram(program, argv, { stdout: out('stdout'), stderr: out('stderr') }), ...said }
}

suite('a program', () => {
  test('ends with what its command says', async () =>
    assert.deepEqual(await typed('proxy', 'serve'), { code: 7, stdout: '', stderr: '' }))
  test('says a refusal under its own name, with exit code 1', async () =>
    assert.deepEqual(await typed('no'), { code: 1, stdout: '', stderr: 'prog: it is taken\nhint: take another\n' }))
  test('says what a command finds wrong with the call as what it finds itself', async () =>
    assert.deepEqual(await typed('wrong'), {
      code: 2,
      stdout: '',
      stderr: 'prog: these two exclude each other\nhint: leave one out\nusage: prog wrong\nexample: prog wrong\n',
    }))
  test('shows where a bug of its own is', async () => {
    const { code, stderr } = await typed('broken')
    assert.equal(code, 1)
    assert.match(stderr, /^prog: internal error: Error: oh\n +at /)
  })
})

suite('a command that is not known', () => {
  const unknown = async (word: string) => {
    const { code, stderr } = await typed(word)
    assert.equal(code, 2)
    return stderr.split('\n')[0]
  }
  test('may be another that is spelt like it', async () =>
    assert.equal(await unknown('wrnog'), 'prog: unknown command "wrnog"; did you mean wrong?'))
  test('may be the second word of one', async () =>
    assert.equal(await unknown('serve'), 'prog: unknown command "serve"; did you mean proxy serve?'))
  test('may be nothing', async () => assert.equal(await unknown('toString'), 'prog: unknown command "toString"'))
})
