import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { refuse } from '../refusal.ts'
import { declareCommand, type ProgramCommand, runProgram, throwUsageError } from './program.ts'

const declared = <const U extends string>(usage: U, run: () => Promise<number>): ProgramCommand<undefined> =>
  declareCommand({ usage, about: 'x', example: usage, run })

const COMMANDS = {
  proxy: async () => [declared('proxy serve [--listen <addr>]', async () => 7)],
  no: async () => [declared('no', async () => refuse('conflict', 'it is taken', 'take another'))],
  wrong: async () => [declared('wrong', async () => throwUsageError('these two exclude each other', 'leave one out'))],
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
  const run = async (one: ProgramCommand<undefined>): Promise<number> => (await one.run(undefined, {})) ?? 0
  const program = { name: 'prog', commands: COMMANDS, run }
  return { code: await runProgram(program, argv, { stdout: out('stdout'), stderr: out('stderr') }), ...said }
}

suite('a program', () => {
  test('returns the exit code of its command', async () =>
    assert.deepEqual(await typed('proxy', 'serve'), { code: 7, stdout: '', stderr: '' }))
  test('prints a refusal under its own name and exits with 1', async () =>
    assert.deepEqual(await typed('no'), { code: 1, stdout: '', stderr: 'prog: it is taken\nhint: take another\n' }))
  test('reports a usage error of a command like its own', async () =>
    assert.deepEqual(await typed('wrong'), {
      code: 1,
      stdout: '',
      stderr: 'prog: these two exclude each other\nhint: leave one out\nusage: prog wrong\nexample: prog wrong\n',
    }))
  test('prints the stack of an unexpected error', async () => {
    const { code, stderr } = await typed('broken')
    assert.equal(code, 1)
    assert.match(stderr, /^prog: internal error: Error: oh\n +at /)
  })
})

suite('an unknown command', () => {
  const unknown = async (word: string) => {
    const { code, stderr } = await typed(word)
    assert.equal(code, 1)
    return stderr.split('\n')[0]
  }
  test('suggests a similarly spelt command', async () =>
    assert.equal(await unknown('wrnog'), 'prog: unknown command "wrnog"; did you mean wrong?'))
  test('suggests a command with this second word', async () =>
    assert.equal(await unknown('serve'), 'prog: unknown command "serve"; did you mean proxy serve?'))
  test('suggests nothing without a similar one', async () =>
    assert.equal(await unknown('toString'), 'prog: unknown command "toString"'))
})
