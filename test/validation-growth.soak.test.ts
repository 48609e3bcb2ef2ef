// Bodies have a size limit, but validation must also be linear in it: a quadratic check would block the process.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { z } from 'zod'
import { resources } from '../src/resources/index.ts'
import { tools } from '../src/tools/index.ts'
import { growth, LINEAR } from './support/growth.ts'

const SIZE = 1000
/** Faster validations are not measured further. */
const SHORT_MS = 5

const PIECES = ['a', ' ', '*', '/', 'a/', '-', '.', '0', '* ', ':', '\n', 'é', '=', '(', '[', '{', '"', '\\', '%', ',']
const SHAPES: Record<string, (size: number) => unknown> = {
  ...Object.fromEntries(
    PIECES.map((piece) => [JSON.stringify(piece), (size: number) => `${piece.repeat(size / piece.length)}!`]),
  ),
  'a list': (size) => Array.from({ length: size }, (_, index) => `a${index}`),
  'a list of objects': (size) => Array.from({ length: size }, () => ({})),
  'an object': (size) => Object.fromEntries(Array.from({ length: size }, (_, index) => [`k${index}`, index])),
}

const verbs = [...resources.flatMap((resource) => Object.values(resource.verbs)), ...tools]
const members = new Map<z.ZodType, string>()
for (const verb of verbs)
  for (const schema of verb.toolInput ? [verb.input, verb.toolInput.fields] : [verb.input])
    for (const [name, member] of Object.entries(schema.shape as Record<string, z.ZodType>))
      if (!members.has(member)) members.set(member, `${verb.id} ${name}`)

test('the time to validate a field of any verb grows at most linearly with its length', () => {
  assert.ok(members.size > 100)
  for (const [schema, name] of members)
    for (const [shape, make] of Object.entries(SHAPES)) {
      const work = (value: unknown): void => void schema.safeParse(value, { reportInput: true })
      const large = make(SIZE * 32)
      const start = performance.now()
      work(large)
      if (performance.now() - start < SHORT_MS) continue
      const times = growth(SIZE, make, work)
      assert.ok(times < LINEAR, `${name}, ${shape}: ${times}`)
    }
})
