// The question before a right is taken away, with what is lost by it.
import { buttonLink, notice } from '../../../web/dash/parts.ts'
import { html } from '../../../web/html.ts'
import type { FormFields } from '../../http/form-request.ts'
import type { PageContent, PageView } from '../page.ts'

export interface RemovalQuestion {
  readonly question: string
  readonly warnings: readonly string[]
  /** The action of the page that removes the right when `isConfirmed` says so. */
  readonly action: string
  readonly fixed: Readonly<Record<string, string>>
}

export function isConfirmed(fields: FormFields): boolean {
  return fields.get('sure') === 'yes'
}

export function askForRemoval(view: PageView, { question, warnings, action, fixed }: RemovalQuestion): PageContent {
  const form = view.form({
    action,
    fields: [],
    submit: 'Yes, do it',
    fixed: { ...fixed, sure: 'yes' },
    isDangerous: true,
  })
  return {
    title: 'Are you sure?',
    main: html`<p>${question}</p>${warnings.map((warning) => notice('warn', warning))}<div class="choice">${form}${buttonLink(view.url(), 'Cancel')}</div>`,
  }
}
