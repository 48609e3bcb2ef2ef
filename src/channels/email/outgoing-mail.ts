// Builds mails: text and HTML of Markdown, in the thread of the mail that they answer.
import MailComposer from 'nodemailer/lib/mail-composer/index.js'
import { domainOf } from './mail-account.ts'
import { type MailRecord, referencesOfAnswer, subjectOfAnswer } from './mail-threads.ts'
import { markdownToHtml } from './markdown-html.ts'

/** Longer texts are sent without HTML. */
const HTML_MAX = 200_000
const SUBJECT_MAX = 78

export interface MailDraft {
  readonly from: string
  readonly agentName: string | undefined
  readonly to: string
  readonly toName?: string | undefined
  /** Different for each mail: 32 hexadecimal digits. */
  readonly nonce: string
  readonly text: string
  /** Absent: an answer, or made of the text. */
  readonly subject?: string | undefined
  readonly answered?: MailRecord | undefined
  readonly files?: readonly MailFile[] | undefined
}

export interface MailFile {
  readonly filename: string
  readonly mime?: string | undefined
  readonly path?: string | undefined
  readonly content?: Uint8Array | undefined
}

export interface ComposedMail {
  readonly messageId: string
  readonly subject: string
  readonly bytes: Buffer
  readonly to: string
}

/** The id of a mail does not change if it is sent again. */
export function messageIdOf(nonce: string, address: string): string {
  return `${nonce}@${domainOf(address)}`
}

export async function composeMail(draft: MailDraft): Promise<ComposedMail> {
  const { from, agentName, to, toName, nonce, text, answered, files = [] } = draft
  const messageId = messageIdOf(nonce, from)
  const subject = draft.subject ?? (answered ? subjectOfAnswer(answered.subject) : subjectOfText(text, files))
  const references = answered ? referencesOfAnswer(answered).map((id) => `<${id}>`) : []
  const mail = new MailComposer({
    from: { name: agentName ?? '', address: from },
    to: { name: toName ?? '', address: to },
    subject,
    messageId: `<${messageId}>`,
    ...(answered?.messageId === undefined ? {} : { inReplyTo: `<${answered.messageId}>`, references }),
    text,
    ...(text === '' || text.length > HTML_MAX ? {} : { html: markdownToHtml(text) }),
    // RFC 3834: programs do not answer it.
    headers: { 'Auto-Submitted': answered ? 'auto-replied' : 'auto-generated', 'X-Loop': from },
    attachments: files.map(({ filename, mime, path, content }) => ({
      filename,
      ...(mime === undefined ? {} : { contentType: mime }),
      ...(path === undefined ? {} : { path }),
      ...(content === undefined ? {} : { content: Buffer.from(content) }),
    })),
    disableUrlAccess: true,
  })
  return { messageId, subject, to, bytes: await mail.compile().build() }
}

function subjectOfText(text: string, [file]: readonly MailFile[]): string {
  const line = text.split('\n').find((each) => /[\p{L}\p{N}]/u.test(each)) ?? file?.filename ?? 'Message'
  const plain = line
    .replace(/[*_`#>]+/g, '')
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
  const characters = [...plain]
  return characters.length <= SUBJECT_MAX ? plain : `${characters.slice(0, SUBJECT_MAX - 1).join('')}…`
}
