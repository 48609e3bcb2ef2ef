// Audit rows contain no message content: calls every verb and tool with content in each field that accepts it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { digestOf } from '../src/lib/log/redact.ts'
import { audit, writeAudit } from '../src/registry/audit.ts'
import type { NamedVerb } from '../src/registry/resource.ts'
import { resources } from '../src/resources/index.ts'
import { tools } from '../src/tools/index.ts'
import { agents } from './support/agents.ts'
import { agent, onEveryEngine, testHost } from './support/host.ts'
import { run } from './support/sql.ts'

const SENTENCE = 'the visitor said a secret'
/** Two lines, so that fields for names, folders, chats and times reject it. */
const CONTENT = `${SENTENCE}\nand more of it`
const TOKEN = 'Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE'

const VERBS: readonly NamedVerb[] = [...resources.flatMap(({ verbs }) => Object.values(verbs)), ...tools]

/** A value of this schema with `content` in every field that accepts multi-line text; undefined without such a field. */
function fill(schema: unknown, content: string): unknown {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return fill(schema.unwrap(), content)
  if (schema instanceof z.ZodArray) {
    const element = fill(schema.element, content)
    return element === undefined ? undefined : [element]
  }
  if (schema instanceof z.ZodObject) {
    const fields = Object.entries(schema.shape).map(([name, field]) => [name, fill(field, content)])
    const given = fields.filter(([, value]) => value !== undefined)
    return given.length === 0 ? undefined : Object.fromEntries(given)
  }
  return schema instanceof z.ZodType && schema.safeParse(content).success ? content : undefined
}

/** Single-line fields that are content nevertheless. */
const TITLES = { 'tools.pane_set_title': { title: SENTENCE } }

/** Fields whose schema accepts any text but that are not content: audit rows keep them. */
const KEPT = new Set([
  ...['acl.grant params', 'acl.grant predicate', 'acl.ungrant params', 'acl.ungrant predicate'],
  ...['acl.ungrant_effects params', 'acl.ungrant_effects predicate'],
  'installed_packages.install acl',
  ...['scheduled_tasks.schedule cron', 'identities.link id', 'bearers.create sub'],
])

onEveryEngine('audit rows', (engine) => {
  test('contain no content, for every verb and tool', async (t) => {
    const { host } = await testHost(t, engine)
    const context = { host, caller: agent('main'), face: 'tool' as const }
    const filledFields: string[] = []
    await host.engine.transaction(async (tx) => {
      for (const verb of VERBS) {
        const input: Record<string, unknown> = Object.assign(
          {},
          fill(verb.input, CONTENT),
          TITLES[verb.id as keyof typeof TITLES],
        )
        for (const name of Object.keys(input)) {
          if (KEPT.has(`${verb.id} ${name}`)) delete input[name]
          else filledFields.push(`${verb.toolName} ${name}`)
        }
        for (const result of ['ok', 'denied'] as const)
          await writeAudit(tx, context, verb, { input }, { result, durationMs: 0 })
      }
    })
    for (const name of ['send text', 'reply text', 'schedule_task prompt', 'set_work content', 'pane_set_title title'])
      assert.ok(filledFields.includes(name), `${name} is not in ${filledFields.join(', ')}`)
    for (const row of await host.engine.read((tx) => audit.list(tx)))
      assert.ok(!JSON.stringify(row).includes(SENTENCE), JSON.stringify(row))
  })

  test('contain no credential, for every field', async (t) => {
    const { host } = await testHost(t, engine)
    const context = { host, caller: agent('main'), face: 'tool' as const }
    const padding = 'x '.repeat(90)
    await host.engine.transaction(async (tx) => {
      for (const verb of VERBS)
        for (const text of [TOKEN, `/chat/${TOKEN}/`, `${padding}${TOKEN}`]) {
          const names = Object.keys(verb.input.shape)
          const input = Object.fromEntries(names.map((name) => [name, [{ text }, text][names.indexOf(name) % 2]]))
          const outcome = { result: 'denied' as const, durationMs: 0, error: `not permitted on ${text}` }
          await writeAudit(tx, context, verb, { input }, outcome)
        }
    })
    const rows = await host.engine.read((tx) => audit.list(tx))
    for (const row of rows) assert.ok(!JSON.stringify(row).includes(TOKEN.slice(0, 12)), JSON.stringify(row))
    assert.equal(rows[0]?.error_msg, `not permitted on ${digestOf(TOKEN)}`)
  })

  test('contain the length of the text of a refused or sent message', async (t) => {
    const here = await agents(t, engine, ['main', 'team'])
    await here.begin({ id: 'turn-1', folder: 'team', jid: 'web:team' })
    const team = await here.open('team')
    const text = `Here is your link: http://localhost:8080/chat/${TOKEN}/`
    await team.call('reply', { chatJid: 'web:team', text })
    await team.refusal('send', { chatJid: 'web:main', text })
    const rows = await here.host.engine.read((tx) => audit.list(tx, { surface: 'tool' }))
    assert.deepEqual(
      rows.map(({ action, outcome, params_summary }) => [action, outcome, params_summary]),
      [
        ['tools.reply', 'ok', `{"chatJid":"web:team","text":"<redacted:${text.length} chars>"}`],
        ['tools.send', 'denied', `{"chatJid":"web:main","text":"<redacted:${text.length} chars>"}`],
      ],
    )
  })

  test('of an earlier version lose their content in the migration', async (t) => {
    const { host } = await testHost(t, engine)
    const old = {
      ...{ created_at: '2026-01-01T00:00:00.000Z', category: 'mutation' as const, actor: 'folder:team', key: '' },
      ...{ surface: 'tool' as const, outcome: 'ok' as const, duration_ms: 1, instance: 'test' },
    }
    const rows = [
      { ...old, action: 'tools.reply', resource: 'tools', params_summary: `{"text":"${SENTENCE}"}` },
      { ...old, action: 'groups.add', resource: 'groups', params_summary: `{"name":"see /chat/${TOKEN}/"}` },
      { ...old, action: 'invites.revoke', resource: 'invites', key: TOKEN, params_summary: '{}' },
      { ...old, action: 'groups.add', resource: 'groups', key: 'team', params_summary: '{"folder":"team"}' },
    ]
    const steps = audit.storage.filter((step) => typeof step === 'string').filter((step) => /^update /.test(step))
    assert.ok(steps.length > 0)
    await host.engine.transaction(async (tx) => {
      for (const row of rows) await audit.append(tx, row)
      for (const step of steps) await run(tx, step)
    })
    const after = await host.engine.read((tx) => audit.list(tx))
    assert.deepEqual(
      after.map(({ action, key, params_summary }) => [action, key, params_summary]),
      [
        ['tools.reply', '', '{}'],
        ['groups.add', '', '{}'],
        ['invites.revoke', TOKEN.slice(0, 12), '{}'],
        ['groups.add', 'team', '{"folder":"team"}'],
      ],
    )
  })
})
