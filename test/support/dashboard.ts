// A served instance with a dashboard, and the three kinds of people who open it.
import type { TestContext } from 'node:test'
import type { Page } from 'playwright-core'
import { visitor } from './browser.ts'
import { type LocalhostInstance, serveAtLocalhost } from './localhost-instance.ts'
import type { ServedHostOptions } from './served-host.ts'
import { type SignedInBrowser, signIn } from './sign-in.ts'

export const OPERATOR = 'github:operator'
/** Administers `team` and what is below it. */
export const TEAM_ADMIN = 'github:team-admin'
/** Has an account and no grant. */
export const STRANGER = 'github:stranger'

export interface Dashboard extends Omit<LocalhostInstance, 'operator'> {
  readonly operator: SignedInBrowser
  readonly admin: SignedInBrowser
  readonly stranger: SignedInBrowser
  /** A page in Chromium, signed in as this person. */
  open(t: TestContext, as: SignedInBrowser, path: string, options?: Parameters<typeof visitor>[1]): Promise<Page>
}

/** With the folders main, team, team/sub and other. */
export async function serveDashboard(t: TestContext, options: Omit<ServedHostOptions, 'on'> = {}): Promise<Dashboard> {
  const served = await serveAtLocalhost(t, options)
  await served.operator(OPERATOR)
  for (const scope of ['team', 'team/**']) await served.grant(TEAM_ADMIN, '*', scope)
  await served.groups('main', 'team', 'team/sub', 'other')
  const [operator, admin, stranger] = [
    await signIn(served, OPERATOR),
    await signIn(served, TEAM_ADMIN),
    await signIn(served, STRANGER),
  ]
  return {
    ...served,
    operator,
    admin,
    stranger,
    open: async (test, as, path, contextOptions) => {
      const { context } = await visitor(test, contextOptions)
      const [name = '', value = ''] = as.cookie.split(';')[0]?.split('=') ?? []
      await context.addCookies([{ name, value, url: served.base }])
      const page = await context.newPage()
      await page.goto(`${served.base}${path}`, { waitUntil: 'domcontentloaded' })
      return page
    },
  }
}
