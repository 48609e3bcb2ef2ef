// What a page of the dashboard is: it reads and writes through verbs, with the rights of the person who opens it.
import type { Context } from 'hono'
import type { z } from 'zod'
import type { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { NamedVerb } from '../../registry/resource.ts'
import type { FormField } from '../../web/dash/form.ts'
import type { AnyTable, DataTable, TableData } from '../../web/dash/table.ts'
import type { Html } from '../../web/html.ts'
import type { DaemonContext } from '../daemon.ts'
import type { FormFields, FormFile } from '../http/form-request.ts'
import type { SignedIn } from '../http/signed-in.ts'

/** Sections of the navigation, in order. */
export const NAV_SECTIONS = { start: 'Start', work: 'Work', people: 'People', system: 'System' } as const
export type NavSection = keyof typeof NAV_SECTIONS

/** The query of a URL; names that are not given are undefined. */
export type PageQuery = Readonly<Record<string, string>>

export interface ViewForm {
  /** One of the page's `actions`. */
  readonly action: string
  readonly fields: readonly FormField[]
  readonly submit: string
  /** Further input that the person does not edit. */
  readonly fixed?: Readonly<Record<string, string>>
  /** Default: the action. Needed if a page has several forms of one action. */
  readonly id?: string
  readonly isDangerous?: boolean
}

export interface ViewButton {
  readonly action: string
  readonly text: string
  readonly fixed?: Readonly<Record<string, string>>
  /** For screen readers, if the text does not say what it acts on: `Pause task t-1`. */
  readonly label?: string
  readonly isDangerous?: boolean
  readonly isPrimary?: boolean
}

/** One request of a page. */
export interface PageView {
  readonly host: InstanceHost
  readonly daemon: DaemonContext
  readonly c: Context
  readonly person: SignedIn
  readonly isOperator: boolean
  /** Whether the person administers a folder, or is an operator. */
  readonly isAdministrator: boolean
  readonly nowMs: number
  /** The path without the query, as it was requested. */
  readonly path: string
  readonly query: PageQuery
  /** Parameters of the path. */
  readonly params: Readonly<Record<string, string>>
  /** Rows of one page. */
  readonly limit: number
  /** Calls a verb with the person's rights. */
  call<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: z.input<I>): Promise<O>
  /** Whether the call would be permitted. */
  may<I extends z.ZodObject>(verb: NamedVerb<I>, input: z.output<I>): Promise<boolean>
  mayEach<I extends z.ZodObject>(verb: NamedVerb<I>, inputs: readonly z.output<I>[]): Promise<boolean[]>
  /** A form of this page. After a refusal it shows the fault and what was typed. */
  form(form: ViewForm): Html
  /** A further list of the page, with downloads. */
  list<R>(table: DataTable<R>): Html
  /** Downloads of a list that the page does not show as a table. */
  downloads<R>(data: TableData<R>): Html
  /** The lists so far, by their id. */
  readonly lists: ReadonlyMap<string, TableData<never>>
  button(button: ViewButton): Html
  /** The refusal as this person can use it: a hint with a command is for operators. */
  explain(refusal: Refusal): Refusal
  /** A command to copy. Empty for people who are no operators: they have no shell on the machine of this instance. */
  command(text: string): Html
  /** The same as a hint below a list or a form. */
  inTerminal(text: string, label?: string): Html
  /** The URL of this page with changed parameters of its query. */
  url(changes?: Readonly<Record<string, string | undefined>>): string
}

export interface PageContent {
  readonly title: string
  /** Filters and forms, which live updates leave alone. */
  readonly top?: Html
  /** Before the table. */
  readonly main?: Html
  /** Also available as CSV and JSON, with all pages. */
  readonly table?: AnyTable
  /** After the table; live updates leave it alone. */
  readonly bottom?: Html
  /** Reloaded when something was committed. */
  readonly isLive?: boolean
}

/** Where the person goes next, with a sentence about what was done. */
export interface ActionRedirect {
  readonly to?: string
  readonly done: string
}

export type PageAction = VerbAction | CustomAction

/** Calls the verb with the fields of the form. */
export interface VerbAction {
  // biome-ignore lint/suspicious/noExplicitAny: a verb of any input
  readonly verb: NamedVerb<any, any>
  /** What was done. */
  readonly done: string | ((reply: never, input: never) => string)
  /** Where the person goes next; default: the same page. */
  readonly to?: (reply: never, input: never) => string
  /** A page in place of going on, for what must not be stored; undefined to go on. */
  readonly page?: (reply: never, input: never) => PageContent | undefined
  /** The question of a confirmation page. */
  readonly confirm?: (fields: Readonly<Record<string, string>>) => string
}

export interface CustomAction {
  /** A page as the response shows what must not be stored, such as a new token. */
  run(view: PageView, fields: FormFields, files: ReadonlyMap<string, FormFile>): Promise<PageContent | ActionRedirect>
  readonly confirm?: (fields: Readonly<Record<string, string>>) => string
  /** Largest form in bytes. */
  readonly maxBytes?: number
}

export interface DashPage {
  /** A path of Hono, such as /dash/messages/:id. */
  readonly path: string
  readonly title: string
  /** Section of the navigation; absent: the page is not in it. */
  readonly nav?: NavSection
  /** Other people get 404. Default: administrators of a folder, and operators. */
  isShown?(view: Pick<PageView, 'isOperator' | 'isAdministrator'>): boolean
  readonly actions?: Readonly<Record<string, PageAction>>
  /** The actions of the view that the query selects; in place of `actions`. */
  actionsOf?(view: PageView): Readonly<Record<string, PageAction>>
  /** For a page that takes long: shown below its title until the rest arrives. */
  readonly progress?: string
  /** Refuses a form before it is carried out, for example because what the page is about was removed. */
  beforeAction?(view: PageView): Promise<void>
  show(view: PageView): Promise<PageContent>
}

export function definePage(page: DashPage): DashPage {
  return page
}

export function isPageShown(page: DashPage, view: Pick<PageView, 'isOperator' | 'isAdministrator'>): boolean {
  return page.isShown ? page.isShown(view) : view.isAdministrator
}

/** The page of a folder. Names of folders are plain, so their slashes stay. */
export function folderPath(folder: string, view?: string): string {
  return `/dash/folders/${folder}${view === undefined ? '' : `?view=${view}`}`
}
