// Forms of the dashboard: fields with labels, hints and limits.
import { EMPTY_HTML, type Html, html } from '../html.ts'

export type FieldKind =
  | 'text'
  | 'multiline'
  | 'number'
  | 'select'
  | 'checkbox'
  | 'password'
  | 'search'
  | 'datetime'
  | 'file'

export interface FormField {
  readonly name: string
  readonly label: string
  /** Default: text. */
  readonly kind?: FieldKind
  readonly value?: string | undefined
  /** Of a select: values, or values with their labels. */
  readonly options?: readonly (string | readonly [value: string, label: string])[]
  /** Suggestions of a text field. */
  readonly suggestions?: readonly string[]
  readonly hint?: string | undefined
  readonly isRequired?: boolean
  /** Not marked as optional: filters all are. */
  readonly isUnmarked?: boolean
  readonly maxLength?: number | undefined
  readonly min?: number | undefined
  readonly max?: number | undefined
  readonly placeholder?: string
  readonly rows?: number
  /** Names of the field in messages, if they differ from its own. */
  readonly inputNames?: readonly string[]
  /** What was wrong with the last attempt. */
  readonly fault?: string | undefined
}

/** A field with more rows is for a file. */
const EDITOR_ROWS = 16

export interface FormOptions {
  readonly id: string
  /** The URL that the form is sent to; default: the page itself. */
  readonly to?: string
  readonly fields: readonly FormField[]
  readonly hidden: Readonly<Record<string, string>>
  readonly submit: string
  readonly isDangerous?: boolean
  /** What was wrong with the last attempt. */
  readonly fault?: Html | undefined
  /** What was typed in the last attempt. */
  readonly values?: Readonly<Record<string, string>> | undefined
}

export function renderForm(options: FormOptions): Html {
  const { id, to, fields, hidden, submit, isDangerous = false, fault = EMPTY_HTML, values = {} } = options
  const faulty = fields.findIndex((field) => field.fault !== undefined)
  const shown = fields.map((field, at) => renderField(id, withTypedValue(field, values), at === faulty))
  const action = to === undefined ? EMPTY_HTML : html` action="${to}"`
  const look = isOneLine(fields) ? 'form one-line' : isEditor(fields) ? 'form editor' : 'form'
  const encoding = fields.some(({ kind }) => kind === 'file') ? html` enctype="multipart/form-data"` : EMPTY_HTML
  return html`<form id="${id}" class="${look}" method="post"${action}${encoding}>${hiddenInputs(hidden)}${fault}${shown}<button class="${isDangerous ? 'danger' : 'primary'}">${submit}</button></form>`
}

/** Its button is beside the field. */
function isOneLine(fields: readonly FormField[]): boolean {
  const [field] = fields
  return fields.length === 1 && field?.kind !== 'multiline' && field?.kind !== 'checkbox'
}

/** A form with the text of a file is wider. */
function isEditor(fields: readonly FormField[]): boolean {
  return fields.some(({ rows = 0 }) => rows >= EDITOR_ROWS)
}

/** A form that is only a button. `label` names it for screen readers if its text is not enough. */
export function renderButton(options: {
  readonly to?: string | undefined
  readonly hidden: Readonly<Record<string, string>>
  readonly text: string
  readonly label?: string | undefined
  readonly isDangerous?: boolean | undefined
  readonly isPrimary?: boolean | undefined
}): Html {
  const { to, hidden, text, label, isDangerous, isPrimary } = options
  const action = to === undefined ? EMPTY_HTML : html` action="${to}"`
  const named = label === undefined ? EMPTY_HTML : html` aria-label="${label}"`
  const look = isDangerous ? 'danger quiet' : isPrimary ? 'primary quiet' : 'quiet'
  return html`<form class="inline" method="post"${action}>${hiddenInputs(hidden)}<button class="${look}"${named}>${text}</button></form>`
}

function hiddenInputs(hidden: Readonly<Record<string, string>>): Html[] {
  return Object.entries(hidden).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)
}

/** A password is never sent back. */
function withTypedValue(field: FormField, values: Readonly<Record<string, string>>): FormField {
  const { kind, name, value, hint } = field
  const typed = values[name]
  if (kind !== 'password') return { ...field, value: typed ?? value }
  return { ...field, value: undefined, hint: typed ? 'Type it again: it was not kept.' : hint }
}

/** `form` is the id of the form, which makes the ids of its fields unique. */
export function renderField(form: string, field: FormField, isFocused = false): Html {
  const { name, label, kind = 'text', value = '', hint, isRequired = false, isUnmarked = isRequired } = field
  const id = `${form}-${name}`
  const hintId = `${id}-hint`
  const faultId = `${id}-fault`
  const notes = [...(field.fault === undefined ? [] : [faultId]), ...(hint === undefined ? [] : [hintId])]
  const invalid = field.fault === undefined ? EMPTY_HTML : html` aria-invalid="true"`
  const focus = isFocused ? html` autofocus` : EMPTY_HTML
  const described = html`${notes.length === 0 ? EMPTY_HTML : html` aria-describedby="${notes.join(' ')}"`}${invalid}${focus}`
  const faultLine =
    field.fault === undefined ? EMPTY_HTML : html`<small id="${faultId}" class="field-fault">${field.fault}</small>`
  const hintLine = html`${faultLine}${hint === undefined ? EMPTY_HTML : html`<small id="${hintId}" class="hint">${hint}</small>`}`
  if (kind === 'checkbox') {
    const checked = value === 'true' ? html` checked` : EMPTY_HTML
    return html`<p class="field check"><label><input id="${id}" type="checkbox" name="${name}" value="true"${checked}${described}> ${label}</label>${hintLine}</p>`
  }
  const mark = isUnmarked ? EMPTY_HTML : html` <span class="muted">(optional)</span>`
  const isFilter = kind === 'search' || kind === 'select'
  return html`<p class="field"><label for="${id}">${label}${isFilter ? EMPTY_HTML : mark}</label>${control(id, field, value, described)}${hintLine}</p>`
}

function control(id: string, field: FormField, value: string, described: Html): Html {
  const { name, kind = 'text', options = [], suggestions, rows = 4 } = field
  const attributes = html` id="${id}" name="${name}"${limitsOf(field)}${described}`
  if (kind === 'multiline') return html`<textarea${attributes} rows="${rows}">${`\n${value}`}</textarea>`
  if (kind === 'select') {
    const choices = options.map((option) => {
      const [choice, text] = typeof option === 'string' ? [option, option] : option
      return html`<option value="${choice}"${choice === value ? html` selected` : EMPTY_HTML}>${text}</option>`
    })
    return html`<select${attributes}>${choices}</select>`
  }
  if (kind === 'file') return html`<input type="file"${attributes}>`
  const type = { number: 'number', password: 'password', search: 'search', datetime: 'datetime-local', text: 'text' }[
    kind as Exclude<FieldKind, 'multiline' | 'select' | 'checkbox' | 'file'>
  ]
  const list = suggestions ? html` list="${id}-list"` : EMPTY_HTML
  const items = suggestions
    ? html`<datalist id="${id}-list">${suggestions.map((text) => html`<option value="${text}"></option>`)}</datalist>`
    : EMPTY_HTML
  const complete = html` autocomplete="${kind === 'password' ? 'new-password' : 'off'}"`
  return html`<input type="${type}"${attributes} value="${value}"${list}${complete}>${items}`
}

function limitsOf({ isRequired, maxLength, min, max, placeholder }: FormField): Html[] {
  return [
    ...(isRequired ? [html` required`] : []),
    ...(maxLength === undefined ? [] : [html` maxlength="${maxLength}"`]),
    ...(min === undefined ? [] : [html` min="${min}"`]),
    ...(max === undefined ? [] : [html` max="${max}"`]),
    ...(placeholder === undefined ? [] : [html` placeholder="${placeholder}"`]),
  ]
}
