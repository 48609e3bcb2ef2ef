import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { renderFilters } from './filter-bar.ts'
import { type FormField, renderForm } from './form.ts'

const formOf = (...fields: FormField[]): string =>
  renderForm({ id: 'f', fields, hidden: {}, submit: 'Save' }).toString()

suite('forms', () => {
  test('with one short field take one line, and those with the text of a file are wide', () => {
    const name = { name: 'name', label: 'Name' }
    assert.match(formOf(name), /class="form one-line"/)
    assert.match(formOf(name, { name: 'value', label: 'Value' }), /class="form"/)
    assert.match(formOf({ ...name, kind: 'multiline' }), /class="form"/)
    assert.match(formOf({ ...name, kind: 'multiline', rows: 24 }), /class="form editor"/)
    assert.match(formOf({ ...name, kind: 'checkbox' }), /class="form"/)
  })

  test('mark optional fields, which filters do not need', () => {
    const field = { name: 'folder', label: 'Folder' }
    assert.match(formOf(field), /\(optional\)/)
    assert.doesNotMatch(formOf({ ...field, isRequired: true }), /\(optional\)/)
    const filters = renderFilters({ id: 'f', path: '/dash/turns', fields: [field], query: {} }).toString()
    assert.doesNotMatch(filters, /\(optional\)/)
  })
})
