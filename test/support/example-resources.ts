// Two example resources for the tests of faces, which use every feature of a declaration.
import type { TestContext } from 'node:test'
import { z } from 'zod'
import { Bytes, HostName, line, Timestamp } from '../../src/core/values.ts'
import { PRODUCT_TABLES } from '../../src/daemons/tables.ts'
import { refuse } from '../../src/lib/refusal.ts'
import { allowAnyone } from '../../src/registry/authorization.ts'
import { listVerb, mustFindRow } from '../../src/registry/crud.ts'
import { defineResource, defineVerb } from '../../src/registry/resource.ts'
import { migrate } from '../../src/store/migrate.ts'
import { Table } from '../../src/store/table.ts'
import { type TestHost, testHost } from './host.ts'

const Thing = z
  .object({
    name: line(64).describe('What it is called'),
    size: z.int().min(0).max(1000),
    open: z.boolean().optional(),
    host: HostName.optional(),
    code: z.string().meta({ writeOnly: true }).optional(),
    hash: Bytes.meta({ writeOnly: true }).optional(),
    added_at: Timestamp.meta({ readOnly: true }),
  })
  .meta({ id: 'Things' })

const things = new Table({
  name: 'things',
  row: Thing,
  key: 'name',
  storage: [
    `create table things (
       name text primary key, size integer not null, open boolean, host text, code text, hash bytea, added_at text not null)`,
  ],
})

export const thingsResource = defineResource({
  of: things,
  title: 'Things',
  servedBy: 'routd',
  verbs: (table) => ({
    list: listVerb(table, 'things', { authorize: allowAnyone, order: [['name', 'asc']], when: 'See every thing.' }),

    create: defineVerb({
      http: 'POST /',
      status: 201,
      input: Thing.omit({ added_at: true, hash: true }).extend({ size: Thing.shape.size.default(1) }),
      // The whole row on purpose: the framework must remove write-only members.
      output: Thing,
      authorize: allowAnyone,
      run: async (ctx, thing) => {
        if (await table.find(ctx.tx, { name: thing.name })) refuse('conflict', `there is a ${thing.name} already`)
        await table.insert(ctx.tx, { ...thing, hash: new Uint8Array([1, 2]), added_at: ctx.now })
        return mustFindRow(ctx, table, { name: thing.name }, 'thing')
      },
    }),

    update: defineVerb({
      http: 'PATCH /{name}',
      when: 'Change a thing.',
      input: Thing.pick({ name: true, size: true, open: true }).partial({ size: true }),
      output: Thing.pick({ name: true, size: true }),
      authorize: allowAnyone,
      run: async (ctx, { name, ...patch }) => {
        await table.update(ctx.tx, { name }, patch)
        return mustFindRow(ctx, table, { name }, `thing ${name}`)
      },
    }),

    measure: defineVerb({
      http: 'GET /{name}/size',
      isReadOnly: true,
      input: z.object({ name: line(64), unit: z.enum(['cm', 'in']).default('cm'), exact: z.boolean().optional() }),
      output: z.object({ name: z.string(), unit: z.string(), exact: z.boolean().optional() }),
      authorize: allowAnyone,
      run: async (_, input) => input,
    }),

    delete: defineVerb({
      http: 'DELETE /{name}',
      input: Thing.pick({ name: true }),
      authorize: allowAnyone,
      run: async (ctx, key) => {
        if ((await table.remove(ctx.tx, key)) === 0) refuse('not_found', `there is no thing ${key.name}`)
      },
    }),

    fail: defineVerb({
      http: 'POST /fail',
      input: z.object({}),
      authorize: allowAnyone,
      run: () => Promise.reject(new Error('select * from things: disk full at /var/lib/svc')),
    }),

    /** Without `http` there is no REST face. */
    polish: defineVerb({
      when: 'Make a thing shine.',
      input: Thing.pick({ name: true }),
      authorize: allowAnyone,
      run: async () => {},
    }),
  }),
})

const Pair = z.object({ left: z.string(), right: z.string(), note: z.string().optional() }).meta({ id: 'Pairs' })

const pairs = new Table({
  name: 'pairs',
  row: Pair,
  key: ['left', 'right'],
  storage: ['create table pairs ("left" text not null, "right" text not null, note text)'],
})

export const pairsResource = defineResource({
  of: pairs,
  title: 'Pairs',
  servedBy: 'routd',
  path: '/v1/couples',
  verbs: () => ({
    look: defineVerb({
      http: 'GET /{pk}',
      isReadOnly: true,
      input: Pair,
      output: Pair,
      authorize: allowAnyone,
      run: async (_, pair) => pair,
    }),
  }),
})

export const EXAMPLE_RESOURCES = [thingsResource, pairsResource]

/** A host whose store also has the example tables. */
export async function exampleHost(t: TestContext): Promise<TestHost> {
  const test = await testHost(t)
  await migrate(test.host.engine, [...PRODUCT_TABLES, things, pairs], () => '2026-01-01T00:00:00.000Z')
  return test
}
