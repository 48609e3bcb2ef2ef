// The model of the instance. A newcomer starts here.
import { modelActions, renderModelSection } from '../model-section.ts'
import { definePage } from '../page.ts'

export const modelPage = definePage({
  path: '/dash/model',
  title: 'Model',
  nav: 'system',
  isShown: ({ isOperator }) => isOperator,
  actions: modelActions,
  show: async (view) => ({ title: 'Model', top: await renderModelSection(view) }),
})
