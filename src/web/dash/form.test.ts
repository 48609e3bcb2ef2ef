import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { renderFilters, withQuery } from './filter-bar.ts'
import { type FormField, renderForm } from './form.ts'

const formOf = (...fields: FormField[]): string =>
  renderForm({ id: 'f', fields, hidden: {}, submit: 'Save' }).toString()

suite('forms', () => {
  test('with one short field take one line, and those with the text of a file are wide', () => {
    const name = { name: 'name', label: 'Name' }
    assert.match(formOf(name), /class="form one-line"/)
    assert.match(formOf(name, { name: 'value', label: 'Value' }), /class="form"/)
    assert.match(formOf({ ...name, kind: 'multiline' }), /class="form"/)
    assert.match(formOf({ ...name, kind: 'multiline', rows: 15 }), /class="form"/)
    assert.match(formOf({ ...name, kind: 'multiline', rows: 16 }), /class="form editor"/)
    assert.match(formOf({ ...name, kind: 'checkbox' }), /class="form"/)
  })

  test('show again what was typed, but never a password', () => {
    const fields: FormField[] = [
      { name: 'text', label: 'Text', value: 'before' },
      { name: 'kept', label: 'Kept', value: 'before' },
      { name: 'secret', label: 'Secret', kind: 'password', value: 'before' },
    ]
    const values = { text: '"typed', secret: 'typed-secret' }
    const shown = renderForm({ id: 'f', fields, hidden: {}, submit: 'Save', values }).toString()
    assert.match(shown, /name="text"[^>]* value="&quot;typed"/)
    assert.match(shown, /name="kept"[^>]* value="before"/)
    assert.match(shown, /<input type="password"[^>]* value="" autocomplete="new-password"/)
    assert.doesNotMatch(shown, /typed-secret/)
  })

  test('have the value and the limits of each kind of field', () => {
    const check = (value?: string): string => formOf({ name: 'c', label: 'C', kind: 'checkbox', value })
    assert.match(check('true'), /type="checkbox" name="c" value="true" checked/)
    assert.doesNotMatch(check('false') + check(), / checked/)
    const select = formOf({ name: 's', label: 'S', kind: 'select', options: ['a', ['b', 'B']], value: 'b' })
    assert.match(select, /<option value="a">a<\/option><option value="b" selected>B<\/option>/)
    // A browser drops the first line break of a text.
    assert.match(formOf({ name: 't', label: 'T', kind: 'multiline', value: '\n<' }), /rows="4">\n\n&lt;<\/textarea>/)
    const number = formOf({ name: 'n', label: 'N', kind: 'number', isRequired: true, min: 0, max: 9, maxLength: 1 })
    assert.match(number, /<input type="number"[^>]* required maxlength="1" min="0" max="9"/)
    assert.doesNotMatch(formOf({ name: 'n', label: 'N' }), /required|maxlength|min=|max=/)
    const hinted = formOf({ name: 'h', label: 'H', hint: 'x', suggestions: ['<'] })
    assert.match(hinted, /aria-describedby="f-h-hint"[^>]* list="f-h-list"[^>]* autocomplete="off"/)
    assert.match(hinted, /<datalist id="f-h-list"><option value="&lt;">.*<small id="f-h-hint" class="hint">x</)
  })

  test('mark optional fields, which filters do not need', () => {
    const field = { name: 'folder', label: 'Folder' }
    assert.match(formOf(field), /\(optional\)/)
    assert.doesNotMatch(formOf({ ...field, isRequired: true }), /\(optional\)/)
    const filters = renderFilters({ id: 'f', path: '/dash/turns', fields: [field], query: {} }).toString()
    assert.doesNotMatch(filters, /\(optional\)/)
  })

  test('of filters show the query and keep the view, and can be cleared', () => {
    const fields = [
      { name: 'folder', label: 'Folder' },
      { name: 'days', label: 'Days', value: '30' },
    ]
    const filters = (query: Record<string, string>): string =>
      renderFilters({ id: 'f', path: '/dash/costs', fields, fixed: { by: 'day' }, query }).toString()
    const filtered = filters({ folder: 'team"', by: 'day' })
    assert.match(filtered, /<input type="hidden" name="by" value="day">/)
    assert.match(filtered, /name="folder"[^>]* value="team&quot;"/)
    assert.match(filtered, /name="days"[^>]* value="30"/)
    assert.match(filtered, /<a class="button quiet" href="\/dash\/costs\?by=day">Clear<\/a>/)
    assert.doesNotMatch(filters({ folder: '', by: 'day' }), />Clear</)
    assert.match(filters({ days: '7' }), /name="days"[^>]* value="7".*>Clear</)
  })

  test('send queries without empty values', () => {
    assert.equal(withQuery('/a', {}), '/a')
    assert.equal(withQuery('/a', { b: '', c: undefined, d: 'é &' }), '/a?d=%C3%A9+%26')
  })
})
