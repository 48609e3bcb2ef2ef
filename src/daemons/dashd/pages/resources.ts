// /dash/resources/<name>: a list and forms of any resource, from its declaration alone. Pages of their own are better for what
// people do often; this one has everything.
import type { z } from 'zod'
import { parseTextInput } from '../../../faces/text-input.ts'
import { refuse } from '../../../lib/refusal.ts'
import { isObject } from '../../../lib/text/json.ts'
import { isMarked } from '../../../registry/crud.ts'
import type { NamedVerb, Resource } from '../../../registry/resource.ts'
import { encodeKey } from '../../../registry/url-key.ts'
import { resources } from '../../../resources/index.ts'
import { renderDetails } from '../../../web/dash/detail-pane.ts'
import { renderFilters } from '../../../web/dash/filter-bar.ts'
import type { FormField } from '../../../web/dash/form.ts'
import { buttonLink, copyText, link, notice, section, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { defineTable, type TableColumn } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { fieldsOf, labelOf } from '../form-fields.ts'
import { definePage, type PageAction, type PageContent, type PageView } from '../page.ts'
import { explainWrongFilter } from '../wrong-filters.ts'

const PATH = '/dash/resources'
const CELL_MAX = 200

type Row = Readonly<Record<string, unknown>>

/** The verbs of a resource by their shape, as REST derives its routes. */
interface ResourceShape {
  readonly list: NamedVerb
  readonly create?: NamedVerb | undefined
  readonly update?: NamedVerb | undefined
  readonly remove?: NamedVerb | undefined
}

/** Undefined if the resource has no list. */
export function shapeOf({ verbs, key }: Resource): ResourceShape | undefined {
  const all: readonly NamedVerb[] = Object.values(verbs)
  const list = all.find(({ verb, isReadOnly }) => verb === 'list' && isReadOnly)
  if (!list) return undefined
  const hasKey = ({ input }: NamedVerb): boolean => key.every((column) => Object.hasOwn(input.shape, column))
  const find = (isShape: RegExp, names: readonly string[]): NamedVerb | undefined =>
    all.find(({ http = '' }) => isShape.test(http)) ?? all.find(({ verb }) => names.includes(verb))
  const update = find(/^PATCH \/\{[^}]+\}$/, ['update'])
  const remove = find(/^DELETE \/\{[^}]+\}$/, ['delete', 'remove'])
  return {
    list,
    create: find(/^POST \/$/, ['create']),
    update: update && hasKey(update) ? update : undefined,
    remove: remove && hasKey(remove) ? remove : undefined,
  }
}

export const resourceListPage = definePage({
  path: PATH,
  title: 'All resources',
  nav: 'system',
  show: async (view) => {
    const listed: Html[] = []
    for (const resource of resources) {
      const shape = shapeOf(resource)
      if (shape && (await isListable(view, shape.list)))
        listed.push(html`<li><div class="what">${link(`${PATH}/${resource.name}`, resource.name)}</div></li>`)
    }
    return {
      title: 'All resources',
      main: html`<p>Every kind of row that you may see, as a list with its forms.</p><ul class="list">${listed}</ul>`,
    }
  },
})

export const resourcePage = definePage({
  path: `${PATH}/:name`,
  title: 'Resource',
  actionsOf: (view) => actionsOf(mustFind(view)),
  show: async (view) => {
    const { resource, shape } = mustFind(view)
    const { list, create, update, remove } = shape
    if (!(await isListable(view, list))) refuse('not_found', `there is no list of ${resource.name}`)
    const [title, top] = [resource.name, renderListFilters(view, list)]
    const found = await explainWrongFilter(async () => ({
      reply: await view.call(list, { ...listInput(list, view), ...filterInput(list, view) }),
    }))
    if (!('reply' in found)) return { title, top, ...found }
    const { rows, next } = readReply(resource, found.reply)
    const inputs = rows.map((row) => keyInput(resource, row))
    const mayRemove = remove ? await view.mayEach(remove, inputs) : []
    const mayUpdate = update ? await view.mayEach(update, inputs) : []
    const isAt = new Map(rows.map((row, index) => [row, index]))
    const hasKey = (row: Row): boolean => resource.key.every((column) => row[column] !== undefined)
    const idOf = (row: Row): string =>
      hasKey(row) ? encodeKey(resource.key.map((column) => String(row[column]))) : String(isAt.get(row))
    const edited = rows.find((row) => hasKey(row) && idOf(row) === view.query.edit)
    const hasActions = [...mayRemove, ...mayUpdate].includes(true)
    return {
      title,
      top,
      table: defineTable<Row>({
        id: resource.name,
        caption: resource.name,
        rows,
        next,
        rowId: idOf,
        columns: columnsOf(
          resource,
          rows.some(hasKey) ? resource.table.columns : Object.keys(rows[0] ?? {}),
          view.nowMs,
        ),
        rowActions: hasActions
          ? (row) => {
              if (!hasKey(row)) return EMPTY_HTML
              const at = isAt.get(row) ?? -1
              const id = idOf(row)
              const edit = mayUpdate[at]
                ? buttonLink(`${view.url({ edit: id, after: view.query.after })}#form-update`, 'Edit')
                : EMPTY_HTML
              const fixed = textInput(keyInput(resource, row))
              const label = `Delete ${id}`
              return html`${edit}${mayRemove[at] ? view.button({ action: 'remove', fixed, text: 'Delete', label, isDangerous: true }) : EMPTY_HTML}`
            }
          : undefined,
        empty: {
          text: 'There are no rows.',
          next: create ? link('#new', 'Create one') : EMPTY_HTML,
        },
      }),
      bottom: html`${edited && update ? updateForm(view, resource, update, edited) : EMPTY_HTML}${create ? await createForm(view, resource, create) : EMPTY_HTML}<p>${link(PATH, 'All resources')}</p>`,
    }
  },
})

function mustFind({ params }: Pick<PageView, 'params'>): { resource: Resource; shape: ResourceShape } {
  const resource = resources.find(({ name }) => name === params.name)
  const shape = resource && shapeOf(resource)
  return resource && shape ? { resource, shape } : refuse('not_found', 'there is no such resource')
}

function actionsOf({
  resource,
  shape: { create, update, remove },
}: {
  resource: Resource
  shape: ResourceShape
}): Record<string, PageAction> {
  const nameOf = (fields: Readonly<Record<string, string>>): string =>
    resource.key.map((column) => fields[column] ?? '').join(' ')
  return {
    ...(create
      ? { create: { verb: create, done: 'Row created.', page: (reply: unknown) => shownOnce(resource, reply) } }
      : {}),
    ...(update ? { update: { verb: update, done: 'Row changed.' } } : {}),
    ...(remove
      ? {
          remove: {
            verb: remove,
            done: 'Row deleted.',
            confirm: (fields: Readonly<Record<string, string>>) => `Delete ${nameOf(fields)} of ${resource.name}?`,
          },
        }
      : {}),
  }
}

/** What the reply has and no row, such as a new token; undefined if there is nothing of this kind. */
function shownOnce({ name, table }: Resource, reply: unknown): PageContent | undefined {
  const members = isObject(reply) ? Object.entries(reply) : []
  const only = members.filter(([member, value]) => typeof value === 'string' && !table.columns.includes(member))
  if (only.length === 0) return undefined
  return {
    title: `New row of ${name}`,
    main: html`${notice('warn', 'Copy it now: it is shown only this once.')}${renderDetails(
      Object.fromEntries(only.map(([member, value]) => [labelOf(member), copyText(String(value))])),
    )}${buttonLink(`${PATH}/${name}`, 'Done')}`,
  }
}

/** A list that needs more than paging has a page of its own. */
async function isListable(view: PageView, list: NamedVerb): Promise<boolean> {
  const parsed = list.input.safeParse(listInput(list, view))
  return parsed.success && view.may(list, parsed.data)
}

/** Filters of a list are optional, so paging is all that it needs. */
function listInput({ input }: NamedVerb, { limit, query }: PageView): Record<string, unknown> {
  const has = (name: string): boolean => Object.hasOwn(input.shape, name)
  return {
    ...(has('limit') ? { limit } : {}),
    ...(has('after') && query.after !== undefined ? { after: query.after } : {}),
  }
}

const PAGING: readonly string[] = ['limit', 'after']

function renderListFilters({ path, query }: PageView, { input }: NamedVerb): Html {
  const fields = fieldsOf(input, { omit: PAGING })
  if (fields.length === 0) return EMPTY_HTML
  return renderFilters({ id: 'resource-filters', path, query, fields: fields.map(toFilter) })
}

function toFilter(field: FormField): FormField {
  return { ...field, isRequired: false, kind: field.kind ?? 'search' }
}

/** The filters of the query, in the types of the verb. */
function filterInput({ input }: NamedVerb, { query }: PageView): Record<string, unknown> {
  const given = Object.keys(input.shape).flatMap((name) =>
    PAGING.includes(name) || !query[name] ? [] : [[name, query[name]] as const],
  )
  return parseTextInput(input, Object.fromEntries(given))
}

/** Lists are `{<resource>: […], next?}`; the rows are validated by the verb. */
function readReply({ listKey }: Resource, reply: unknown): { rows: readonly Row[]; next: string | undefined } {
  const { next, ...members } = reply as Record<string, unknown>
  const rows = members[listKey] ?? Object.values(members).find(Array.isArray) ?? []
  return { rows: rows as readonly Row[], next: typeof next === 'string' ? next : undefined }
}

function keyInput({ key }: Resource, row: Row): Record<string, unknown> {
  return Object.fromEntries(key.map((column) => [column, row[column]]))
}

function textInput(input: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(Object.entries(input).map(([name, value]) => [name, String(value)]))
}

function columnsOf({ row }: Resource, columns: readonly string[], nowMs: number): TableColumn<Row>[] {
  const shown = columns.filter((column) => !isMarked(row, column, 'writeOnly'))
  return shown.map((column) => ({
    label: labelOf(column),
    cell: (each) => cellOf(each[column], nowMs),
    value: (each) => plainValue(each[column]),
  }))
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/

function cellOf(value: unknown, nowMs: number): Html | string {
  if (typeof value === 'string' && TIME.test(value)) return timeOf(value, nowMs)
  const text = visibleText(String(plainValue(value) ?? ''))
  return text.length > CELL_MAX ? `${text.slice(0, CELL_MAX)}…` : text
}

function plainValue(value: unknown): string | number | boolean | undefined {
  if (value === undefined || value === null || value instanceof Uint8Array) return undefined
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  return JSON.stringify(value)
}

function updateForm(view: PageView, resource: Resource, update: NamedVerb, row: Row): Html {
  const takesEmpty = (name: string): boolean => update.input.shape[name]?.safeParse('').success ?? false
  const isStored = ({ name }: FormField): boolean => plainValue(row[name] ?? '') !== ''
  const fields = fieldsOf(update.input, { omit: [...resource.key], values: row })
  // A change cannot take a value away that must not be empty, so the form does not accept that.
  const shown = fields.map((field) => (isStored(field) && !takesEmpty(field.name) ? requiredField(field) : field))
  const clears = fields.filter((field) => isStored(field) && takesEmpty(field.name)).map(({ name }) => name)
  const key = textInput(keyInput(resource, row))
  const fixed = { ...key, ...(clears.length === 0 ? {} : { clears: clears.join(' ') }) }
  const title = `Change ${Object.values(key).join(' ')}`
  return section('change', title, view.form({ action: 'update', fields: shown, fixed, submit: 'Save' }))
}

function requiredField(field: FormField): FormField {
  const options = field.options?.filter((option) => option[0] !== '')
  return { ...field, isRequired: true, ...(options ? { options } : {}) }
}

/** Who may create a row often depends on it, so only a caller who may create none is not offered the form. */
async function createForm(view: PageView, resource: Resource, create: NamedVerb<z.ZodObject>): Promise<Html> {
  const isForOperators = 'isForOperators' in create.authorize
  if (isForOperators && !view.isOperator) return EMPTY_HTML
  const fields = fieldsOf(create.input)
  return section('new', `New row of ${resource.name}`, view.form({ action: 'create', fields, submit: 'Create' }))
}
