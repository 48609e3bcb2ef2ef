// A wrong filter is explained in place of the list, so that the filters stay and can be corrected.
import { Refusal, type RefusalCode } from '../../lib/refusal.ts'
import type { Html } from '../../web/html.ts'
import { faultNotice } from './view.ts'

const EXPLAINED: readonly RefusalCode[] = ['invalid', 'unavailable']

export async function explainWrongFilter<C extends object>(
  read: () => Promise<C>,
): Promise<C | { readonly main: Html }> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof Refusal && EXPLAINED.includes(error.code)) return { main: faultNotice(error) }
    throw error
  }
}
