// The fields of one thing, as a list of names and values.
import { type Html, html } from '../html.ts'
import { visibleText } from './parts.ts'

type DetailValue = Html | string | number | undefined

/** Fields without a value are left out. */
export function renderDetails(fields: Readonly<Record<string, DetailValue>>): Html {
  const shown = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined || value === ''
      ? []
      : [html`<div><dt>${name}</dt><dd>${typeof value === 'string' ? visibleText(value) : value}</dd></div>`],
  )
  return html`<dl class="details">${shown}</dl>`
}
