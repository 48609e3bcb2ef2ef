// Whatever an agent, a visitor, an adapter or a model can write is read in linear time: twice the text takes at most 2.5
// times as long. A reader of quadratic time lets one file or message stop a process for minutes.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { z } from 'zod'
import { LineSplitter } from '../src/agent-socket/line-splitter.ts'
import { parseRpcLine } from '../src/agent-socket/rpc-line.ts'
import { channelsNamedIn, readableText, withoutLeadingMention } from '../src/channels/discord/incoming-text.ts'
import { toDiscordMarkdown } from '../src/channels/discord/outgoing-markdown.ts'
import { calendarText } from '../src/channels/email/calendar-text.ts'
import { htmlToText } from '../src/channels/email/html-text.ts'
import { parseMessageIds } from '../src/channels/email/mail-threads.ts'
import { markdownToHtml } from '../src/channels/email/markdown-html.ts'
import { stripQuotedHistory } from '../src/channels/email/quoted-history.ts'
import { parseAuthenticationResults } from '../src/channels/email/sender-trust.ts'
import { parseWebhookAnswer } from '../src/channels/http/webhook-delivery.ts'
import { splitText } from '../src/channels/process/text-splitter.ts'
import { emojiNameOf } from '../src/channels/slack/slack-emoji.ts'
import { readEnvelope } from '../src/channels/slack/slack-events.ts'
import { findMentions, quoteText, readSlackText, withoutBroadcasts } from '../src/channels/slack/slack-text.ts'
import { senderFault } from '../src/core/access/namespaces.ts'
import { conditionsHold, parseConditions, parseRule, ruleMatches } from '../src/core/access/rules.ts'
import { CursorTime, parseTimeCursor } from '../src/core/chats/time-cursor.ts'
import { filterOutput } from '../src/core/delivery/output-filter.ts'
import { parseDescription } from '../src/core/groups/agent-skills.ts'
import { toolsFault } from '../src/core/groups/group-config.ts'
import { parseVoice, workspacePathFault } from '../src/core/groups/workspace-files.ts'
import { webHostFault } from '../src/core/links/web-hosts.ts'
import { webPathFault } from '../src/core/links/web-routes.ts'
import { parseSignatureScheme, signatureFault } from '../src/core/links/webhook-signatures.ts'
import { nameInReply } from '../src/core/people/onboarding-chat.ts'
import { parseRedirectUri } from '../src/core/people/redirect-uri.ts'
import { displayContent } from '../src/core/prompt/content-display.ts'
import { escapePromptText } from '../src/core/prompt/prompt.ts'
import { parseDirective, stripDirective } from '../src/core/routing/message-directive.ts'
import { matchesChat, senderSegment } from '../src/core/routing/route-table.ts'
import { parseRouteTarget, routeMatchFault, routeTargetFolder, splitMatch } from '../src/core/routing/routes.ts'
import { parseSchedule } from '../src/core/schedule/schedule.ts'
import { quoteHint } from '../src/core/search/query-hint.ts'
import { isSecretSetting } from '../src/core/secrets/secret-settings.ts'
import { folderFault, hostFault } from '../src/core/values.ts'
import { parseLineMessage } from '../src/daemons/http/line-routes.ts'
import { readCookie } from '../src/daemons/http/session-cookie.ts'
import { parseSignInAllowlist } from '../src/daemons/http/sign-in-allowlist.ts'
import { similarNames } from '../src/daemons/models/model-api.ts'
import { readBaseUrl } from '../src/daemons/models/model-selection.ts'
import { splitPath } from '../src/daemons/proxyd/published-files.ts'
import { parseTarget } from '../src/daemons/proxyd/request-target.ts'
import { personaOf } from '../src/daemons/runed/workspace-files.ts'
import { parseFixedSettings } from '../src/daemons/setting-rules.ts'
import { parseLinkPath } from '../src/daemons/webd/link-path.ts'
import { parseTopicPath } from '../src/daemons/webd/topic-routes.ts'
import { parseManifest } from '../src/deploy/packages/package-manifest.ts'
import { parsePackageSource } from '../src/deploy/packages/package-source.ts'
import { parseHost } from '../src/egress/address/host.ts'
import { parseAbsoluteTarget, parseAuthority, parseHostHeader } from '../src/egress/address/host-port.ts'
import { parseHosts } from '../src/egress/dns/hosts-file.ts'
import { parseHeaderFields, parseTokenList } from '../src/egress/http/header-field.ts'
import { parseAllowlistEntry } from '../src/egress/policy/allowlist-entry.ts'
import { parseQueryString } from '../src/faces/text-input.ts'
import { clientAddress } from '../src/lib/http/client-address.ts'
import { matchesEtag, negotiateEncoding } from '../src/lib/http/content-negotiation.ts'
import { contentType } from '../src/lib/http/http.ts'
import { parseMultipart } from '../src/lib/http/multipart.ts'
import { SseDecoder } from '../src/lib/http/sse-reader.ts'
import { redactPath } from '../src/lib/log/log.ts'
import { readableLogLine } from '../src/lib/log/readable-lines.ts'
import { redact, redactJson } from '../src/lib/log/redact.ts'
import { Refusal } from '../src/lib/refusal.ts'
import { parseDotenv } from '../src/lib/text/dotenv.ts'
import { parseDuration } from '../src/lib/text/duration.ts'
import { frontMatterValue, splitFrontMatter } from '../src/lib/text/front-matter.ts'
import { compileSegments, compileText } from '../src/lib/text/glob.ts'
import { parseJson } from '../src/lib/text/json.ts'
import { parseInline, parseMarkdown, truncateText } from '../src/lib/text/markdown.ts'
import { nearest } from '../src/lib/text/nearest-word.ts'
import { parse } from '../src/lib/text/schema-parser.ts'
import { trimLeading, trimTrailing } from '../src/lib/text/trimming.ts'
import { collapseWhitespace } from '../src/lib/text/whitespace.ts'
import { isSessionError } from '../src/runtimes/claude/runtime.ts'
import { StreamJsonReader } from '../src/runtimes/claude/stream-json.ts'
import { parsePhrase } from '../src/runtimes/demo/phrases.ts'
import { parseScript } from '../src/runtimes/demo/script.ts'
import { scriptForMessage } from '../src/runtimes/demo/script-file.ts'
import { parseRetryAfter } from '../src/runtimes/openai/completion.ts'
import { CompletionAssembler } from '../src/runtimes/openai/completion-assembler.ts'
import { isTooLong, parseErrorBody } from '../src/runtimes/openai/provider-error.ts'
import { trimMessages } from '../src/runtimes/openai/transcript.ts'
import { parseModelPrices, parsePrice } from '../src/runtimes/settings.ts'
import { TextLineSplitter } from '../src/runtimes/text-line-splitter.ts'
import { readOutcome } from '../src/runtimes/warm-child.ts'
import { createSnippet } from '../src/store/search/snippet.ts'
import { foldWord, parsePhrases } from '../src/store/search/text-query.ts'
import { DOUBLED_MAX, doubling, processorTime } from './support/growth.ts'

const ROOT = join(import.meta.dirname, '..')
/** Characters of the text that is read once; texts that take longer than `SHORT_MS` are measured. */
const LENGTH = 64 * 1024
const SHORT_MS = 25
/** The same texts each time: a slow reader fails always or never. */
const RUNS = { numRuns: 30, seed: 26 }
/** A text that takes this long at a quarter of the length is measured at once, with small sizes. */
const LONG_MS = 500
/** Large enough that what a call costs anyway does not hide the growth. */
const SMALL = 2048

type Read = (text: string) => unknown

interface Reader {
  readonly read: Read
  /** What its texts look like, beside the common pieces. */
  readonly pieces?: readonly string[]
  /** The reader accepts no longer text. */
  readonly max?: number
}

const front = (key: string): readonly string[] => [
  '---\n',
  `---\n${key}: a`,
  `${key}:`,
  '\n---\n',
  '"',
  "'",
  '\r',
  ' #',
]
const json = ['{"a":', '[', '{', '"', '\\"', '\\', ',', '1', '"a":"', '}', ']']
const jid = 'web:team'

/** The exported function that reads, or a name where several take part. */
const READERS: Record<string, Reader> = {
  parseWebhookAnswer: { read: parseWebhookAnswer, pieces: ['{"status":200,"headers":{', '"x-a":"b",', '}}'] },
  splitFrontMatter: { read: splitFrontMatter, pieces: front('a') },
  frontMatterValue: { read: (text) => frontMatterValue(text, 'summary'), pieces: front('summary') },
  personaOf: { read: personaOf, pieces: front('summary') },
  parseVoice: { read: parseVoice, pieces: front('voice') },
  parseDescription: { read: parseDescription, pieces: front('description') },
  workspacePathFault: { read: workspacePathFault, pieces: ['/home/node/', '../'] },
  toolsFault: { read: toolsFault, pieces: json },
  parseMarkdown: {
    read: (text) => parseMarkdown(text),
    pieces: [
      '```',
      '~~~',
      '# ',
      '> ',
      '- ',
      '1. ',
      '|',
      '|-|\n',
      '[a](',
      '![',
      '](',
      '<http://',
      '**',
      '__',
      '~~',
      '\\',
    ],
    max: 50_000,
  },
  parseInline: { read: parseInline, pieces: ['`', '``', '[', '](<', '(', '")', '*', '_', '~~', 'http://a', '<a@'] },
  truncateText: { read: (text) => truncateText(text, text.length / 2, 100), pieces: ['\ud83d'] },
  filterOutput: {
    read: filterOutput,
    pieces: ['<think>', '</think>', '<internal>', '</internal>', '<status>', '</status>', '<think ', 'no reply needed'],
  },
  parseDirective: {
    read: (text) => parseDirective(text, { assistantName: 'svc' }),
    pieces: ['@svc ', '/new ', '#a', '@a/'],
  },
  stripDirective: {
    read: (text) => stripDirective(text, { folder: 'a', topic: 'b' }),
    pieces: ['/root ', '#b ', '@a '],
  },
  splitText: {
    read: (text) => splitText(text, 2000),
    pieces: ['```', '~~~', '```js', '](http://a', '[', '![', 'https://a', '. ', '\ud83d\ude00'],
  },
  toDiscordMarkdown: {
    read: toDiscordMarkdown,
    pieces: ['|a|b|\n', '|-|-|\n', '```\n', '![', '](https://a', '#### ', '**'],
  },
  readableText: {
    read: (text) => [
      readableText(text, { user: () => 'a', role: () => 'b', channel: () => 'c' }),
      channelsNamedIn(text),
      withoutLeadingMention(text, '1'),
    ],
    pieces: ['<@', '<#300000000000000003>', '<a:b', '</', '<t:1', '<@123456789012345678> /'],
  },
  stripQuotedHistory: {
    read: stripQuotedHistory,
    pieces: ['> ', 'On 1 Jan a@b wrote:', '-- ', '-----', 'Original Message', 'From: ', 'Sent: '],
  },
  htmlToText: {
    read: htmlToText,
    pieces: [
      '<',
      '>',
      '<!--',
      '-->',
      '<style>',
      '</style',
      '<blockquote>',
      '<a href="',
      '</a>',
      '&amp;',
      '&#',
      '<pre>',
      '<td>',
      '<br>',
    ],
  },
  calendarText: { read: calendarText, pieces: ['BEGIN:VEVENT', 'SUMMARY:', ';TZID=', '\\', '20260131T120000'] },
  parseAuthenticationResults: { read: parseAuthenticationResults, pieces: ['; ', 'dkim=pass', '(', ')', 'header.d='] },
  parseMessageIds: { read: parseMessageIds, pieces: ['<', '>', 'a@b', ', '] },
  markdownToHtml: { read: markdownToHtml, pieces: ['```', '> ', '- ', '[a](http://', '**', '|-|\n'] },
  splitMatch: { read: splitMatch, pieces: ['room=', 'sender='] },
  routeMatchFault: { read: routeMatchFault, pieces: ['room=', '[a', '**/'] },
  matchesChat: { read: (text) => [matchesChat(text, jid), matchesChat('room=*a*b', `web:${text}`)], pieces: ['room='] },
  senderSegment: { read: (text) => senderSegment(text, jid), pieces: ['web:'] },
  parseRouteTarget: { read: parseRouteTarget, pieces: ['folder:', '{sender}', '#'] },
  routeTargetFolder: { read: routeTargetFolder, pieces: ['folder:', '{sender}', '/'] },
  compileSegments: {
    read: (text) => [compileSegments(text)?.('a/b'), compileSegments('**/a/*[b]/**')?.(text)],
    pieces: ['**/', '[a-', ']', '\\'],
  },
  compileText: { read: (text) => [compileText(text)?.('ab'), compileText('*a*ab*b*')?.(text)], pieces: ['*a'] },
  nearest: { read: (text) => nearest(text, ['group', 'settings', 'a'.repeat(100)]) },
  similarNames: { read: (text) => similarNames('gpt-5-mini', text.split(' ')), pieces: ['gpt ', '5-'] },
  parseSchedule: { read: (text) => parseSchedule(text, 0, 'UTC'), pieces: ['* ', '1,', '1-', '*/', '2026-'] },
  parseDuration: { read: parseDuration, pieces: ['1h', '1.5', 'ms'] },
  parsePhrases: { read: parsePhrases, pieces: ['"', '""', '"a"', 'NEAR(', ' + ', '*'] },
  foldWord: { read: foldWord, pieces: ['é', '\u0301', 'ς'] },
  createSnippet: {
    read: (text) => createSnippet(text, parsePhrases('"a a a a b" "b c"* x')),
    pieces: ['a ', 'b ', 'b c', 'x', '«', '😀'],
  },
  quoteHint: { read: quoteHint, pieces: ['"', '-'] },
  nameInReply: { read: nameInReply, pieces: ['@a ', '<@', '`', '.', "'"] },
  readSlackText: {
    read: (text) => [readSlackText(text, { users: new Map(), channels: new Map() }), findMentions(text)],
    pieces: ['<', '<@U1>', '|', '>', '&lt;', '<!a^'],
  },
  'text for Slack': {
    read: (text) => [withoutBroadcasts(text), quoteText(text, text.length)],
    pieces: ['<!', 'subteam^', '\n'],
  },
  emojiNameOf: { read: emojiNameOf, pieces: [':', 'a', '\ufe0f'] },
  'readEnvelope of Slack': {
    read: (text) =>
      readEnvelope({ bot: { team: 'T1', user: 'U01', bot: undefined, name: 'a' }, areBotsHeard: true }, 'events_api', {
        event: { type: 'message', channel: 'C001', user: 'U002', ts: '1.000001', text },
      }),
    pieces: ['<@U01>', '/', ' '],
  },
  folderFault: { read: folderFault },
  hostFault: { read: hostFault, pieces: [':', '::', '0x', '.'] },
  senderFault: { read: (text) => senderFault(text, 'telegram'), pieces: ['telegram:'] },
  webHostFault: { read: webHostFault, pieces: ['.', 'xn--'] },
  webPathFault: { read: webPathFault, pieces: ['/', '%2e', '..'] },
  isSecretSetting: { read: (text) => isSecretSetting('A_URL', text), pieces: ['://', '?', '@', 'eyJ'] },
  parseRule: {
    read: (text) => {
      const rule = parseRule(text)
      return rule && ruleMatches(rule, 'send', { jid: text })
    },
    pieces: ['send(', 'jid=', ',', ')', '!', '*'],
  },
  parseConditions: {
    read: (text) => [parseConditions(text), conditionsHold(parseConditions('jid=*a*') ?? [], { jid: text })],
    pieces: ['jid=', ','],
  },
  parseTimeCursor: {
    read: (text) => CursorTime.safeParse(text).success && parseTimeCursor(text),
    pieces: ['2026-', '00:00'],
  },
  parseRedirectUri: { read: parseRedirectUri, pieces: ['http://', 'https://a', ':', '?', '#'] },
  parseSignatureScheme: { read: parseSignatureScheme, pieces: ['hmac:'] },
  signatureFault: {
    read: (text) =>
      (['github', 'standard', 'stripe'] as const).map((kind) =>
        signatureFault(
          { kind },
          Buffer.from('k'),
          (name) => (/timestamp/.test(name) ? '0' : text),
          Buffer.from('b'),
          0,
        ),
      ),
    pieces: ['sha256=', 'v1,', ' v1,', 't=0,', 'v1=', '='],
  },
  displayContent: {
    read: (text) => [displayContent(text), displayContent(Buffer.from(text, 'latin1'))],
    pieces: ['é'],
  },
  escapePromptText: { read: escapePromptText, pieces: ['<', '&', '"'] },
  'formatted issues of a list': {
    read: (text) => parse(z.object({ a: z.array(z.string().min(3).max(9)) }), { a: text.split(' ') }),
    pieces: ['a '],
  },
  parseQueryString: { read: parseQueryString, pieces: ['a=', '&', '%41', '%', '+'] },
  readCookie: { read: (text) => readCookie(text, 'svc'), pieces: ['svc=', '; '] },
  parseSignInAllowlist: { read: parseSignInAllowlist, pieces: [',', '@', 'a@b'] },
  parseFixedSettings: { read: parseFixedSettings, pieces: [',', ' ', 'TZ'] },
  readBaseUrl: { read: readBaseUrl, pieces: ['https://', '/', '/chat/completions'] },
  splitPath: { read: splitPath, pieces: ['/', '.', '..'] },
  parseTarget: { read: parseTarget, pieces: ['/', '%2e', '%c3%a4', '?', '..', '/a'] },
  parseLineMessage: { read: parseLineMessage, pieces: ['{"kind":"commit","work":[', '"arrivals"', ',', ']'] },
  parsePrice: { read: parsePrice, pieces: ['/', '1.25', '$', ' '] },
  parseModelPrices: { read: parseModelPrices, pieces: [',', 'a=', '=', '1/2', ' '] },
  parseTopicPath: { read: parseTopicPath, pieces: ['topics/', '/', '/branches', '%2F', '%'] },
  parseLinkPath: { read: parseLinkPath, pieces: ['/chat/', '/hook/', '?'] },
  parseMultipart: {
    read: (text) => {
      parseMultipart(Buffer.from(text, 'latin1'), 'multipart/form-data; boundary=x', 100)
    },
    pieces: ['--x\r\n', '\r\n', '\r\n\r\n', '\r\n--x', 'Content-Disposition: form-data; name="a"', ';', '--'],
  },
  'the Content-Type of multipart': {
    read: (text) => parseMultipart(Buffer.alloc(0), text, 9),
    pieces: ['; a=', '"', ';'],
  },
  contentType: { read: contentType, pieces: ['a/b', ';charset=', '"', '; '] },
  matchesEtag: { read: (text) => matchesEtag(text, '"x"'), pieces: ['W/', '"x"', ', '] },
  negotiateEncoding: { read: (text) => negotiateEncoding(text, ['br', 'gzip']), pieces: ['br;q=', ', ', '*'] },
  clientAddress: { read: (text) => clientAddress(() => true, '::1', text), pieces: ['1.1.1.1, ', '[::1]:', '::ffff:'] },
  redact: { read: redact, pieces: ['eyJ', '.', '_', 'A'.repeat(43), 'a'.repeat(64)] },
  redactJson: { read: redactJson, pieces: ['eyJ', '\\n', '\\u00', '.', 'A'.repeat(43)] },
  redactPath: { read: redactPath, pieces: ['/chat/', '%41', '/', 'A'.repeat(43)] },
  readableLogLine: { read: (text) => readableLogLine(text), pieces: json },
  parseDotenv: { read: (text) => parseDotenv(text, '.env'), pieces: ['A=', '"', '\\', '#', 'export '] },
  trimTrailing: { read: (text) => trimTrailing(text, ' /') },
  trimLeading: { read: (text) => trimLeading(text, ' /') },
  collapseWhitespace: { read: collapseWhitespace },
  parseJson: { read: (text) => parseJson(text), pieces: json },
  parseRpcLine: {
    read: (text) => parseRpcLine(Buffer.from(text)),
    pieces: ['{"jsonrpc":"2.0","id":1,"method":"', ...json],
  },
  LineSplitter: {
    read: (text) => {
      const lines = new LineSplitter()
      for (const piece of text.match(/.{1,7}/gs) ?? []) {
        lines.push(Buffer.from(piece))
        while (lines.next());
      }
    },
  },
  TextLineSplitter: {
    read: (text) => {
      const lines = new TextLineSplitter(() => undefined, 1000)
      for (const piece of text.match(/.{1,7}/gs) ?? []) lines.push(piece)
      lines.end()
    },
    pieces: ['\r\n'],
  },
  SseDecoder: {
    read: (text) => {
      const events = new SseDecoder()
      for (const piece of text.match(/.{1,7}/gs) ?? []) events.push(Buffer.from(piece))
    },
    pieces: ['data: ', '\r', 'id:', 'event: a', '\n\n'],
  },
  StreamJsonReader: {
    read: (text) => {
      const stream = new StreamJsonReader()
      for (const line of text.split('\n')) stream.push(line)
      return [stream.text, stream.used, stream.toolServerFailure]
    },
    pieces: ['{"type":"result","result":"', '{"type":"system"}\n', ...json],
  },
  isSessionError: { read: isSessionError, pieces: ['session ', 'not found', 'does not '] },
  readOutcome: { read: readOutcome, pieces: ['{"outcome":{"result":"', ...json] },
  CompletionAssembler: {
    read: (text) => {
      const assembler = new CompletionAssembler()
      for (const content of text.match(/.{1,7}/gs) ?? [])
        assembler.push(
          JSON.stringify({ choices: [{ delta: { content, tool_calls: [{ function: { arguments: content } }] } }] }),
        )
      assembler.push(text)
      return assembler.completion()
    },
    pieces: json,
  },
  parseErrorBody: {
    read: (text) => isTooLong(parseErrorBody(text)),
    pieces: ['{"error":{"message":"', 'token count', 'tokens', ' context '],
  },
  parseRetryAfter: { read: (text) => parseRetryAfter(text), pieces: ['1', '.', ' '] },
  trimMessages: {
    read: (text) =>
      trimMessages(
        text.split(' ').map((content) => ({ role: 'user', content })),
        10,
      ),
    pieces: ['a '],
  },
  parsePhrase: { read: parsePhrase, pieces: ['remind me in ', '1 s and ', 'reminder:', 'ask a', ', ', '...', 'note '] },
  parseScript: { read: parseScript, pieces: ['/say ', '/tool a {', '/wait ', '\n/count 1 1'] },
  scriptForMessage: { read: (text) => scriptForMessage(text, text), pieces: ['when ', '/say a\n', '#'] },
  parseHost: { read: parseHost, pieces: ['.', '::', '0x', 'xn--', '['] },
  parseAuthority: { read: parseAuthority, pieces: [':', '[', ']:', '.'] },
  parseHostHeader: { read: parseHostHeader, pieces: [':', '[', ']:', '.'] },
  parseAbsoluteTarget: { read: parseAbsoluteTarget, pieces: ['http://', '@', ':', '/', '?'] },
  parseHeaderFields: { read: (text) => parseHeaderFields(text, 0), pieces: ['a: b\r\n', ':', '\r\n', '\r'] },
  parseTokenList: { read: parseTokenList, pieces: [', ', 'a,'] },
  parseHosts: { read: parseHosts, pieces: ['1.1.1.1 a\n', '#', ' a'] },
  parseAllowlistEntry: { read: parseAllowlistEntry, pieces: ['.', ':', '*.', '/'] },
  parseManifest: {
    read: (text) => parseManifest(text, 'a'),
    pieces: ['a = "', '[a.', '[[a]]\n', '"""', 'a=1\n', '{a='],
  },
  parsePackageSource: { read: parsePackageSource, pieces: ['https://', 'git@a:', '#', '.git', '/'] },
}

/** Readers whose name would put them into the list. */
const ELSEWHERE: Record<string, string> = {
  decodeManifest: 'a file of the operator',
  parseFragment: 'a file of a package, which the operator installs',
}

/** How a function that reads a text is called. Those of the command line read what the operator types. */
const READER_NAME =
  /^export (?:async )?function ((?:parse|split|strip|redact|filter|decode|compile)\w*)\(\w+: string\b/gm
const NOT_FOREIGN = /^src\/(?:cli|lib\/command-line|egress\/(?:cli|commands|settings|container|run))\//

const COMMON = [
  ' ',
  'a',
  '\t',
  '\n',
  '0',
  '-',
  '.',
  '/',
  '*',
  ',',
  ':',
  '=',
  '"',
  "'",
  '(',
  ')',
  '[',
  '\\',
  '_',
  '\u0000',
  'é',
  '#',
  '%',
  '&',
  '<',
  'a ',
  ' a',
  '!',
]

interface Text {
  readonly start: string
  readonly pump: string
  readonly end: string
}

/** A text that repeats some pieces, between a start and an end that make them matter. */
function textsOf(pieces: readonly string[]): fc.Arbitrary<Text> {
  const piece = fc.oneof(fc.constantFrom(...COMMON), fc.constantFrom(...(pieces.length > 0 ? pieces : COMMON)))
  const few = (minLength: number, maxLength: number): fc.Arbitrary<string> =>
    fc.array(piece, { minLength, maxLength }).map((parts) => parts.join(''))
  return fc.record({ start: few(0, 3), pump: few(1, 3), end: few(0, 3) })
}

function fill({ start, pump, end }: Text, length: number): string {
  return `${start}${pump.repeat(Math.max(1, Math.floor(length / pump.length)))}${end}`
}

function tryRead(read: Read, text: string): void {
  try {
    read(text)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
  }
}

function timeOf(work: () => void): number {
  const start = processorTime()
  work()
  return processorTime() - start
}

function mustBeLinear({ read, max = LENGTH }: Reader, text: Text): void {
  const work = (input: string): void => tryRead(read, input)
  const quarter = timeOf(() => work(fill(text, max / 4)))
  if (quarter < LONG_MS && timeOf(() => work(fill(text, max))) < SHORT_MS) return
  const size = quarter < LONG_MS ? max / 4 : SMALL
  const factor = doubling(size, (length) => fill(text, length), work)
  assert.ok(factor <= DOUBLED_MAX, `twice the text takes ${factor.toFixed(1)} times as long`)
}

suite('every reader of foreign text takes linear time', () => {
  for (const [name, reader] of Object.entries(READERS))
    test(name, () => {
      fc.assert(
        fc.property(textsOf(reader.pieces ?? []), (text) => mustBeLinear(reader, text)),
        RUNS,
      )
    })

  test('the list has every reader', () => {
    const missing = globSync('src/**/*.ts', { cwd: ROOT })
      .filter((path) => !/\.(test|contract)\.ts$/.test(path) && !NOT_FOREIGN.test(path))
      .flatMap((path) => {
        const names = [...readFileSync(join(ROOT, path), 'utf8').matchAll(READER_NAME)].map(([, name = '']) => name)
        return names.filter((each) => !READERS[each] && !ELSEWHERE[each]).map((each) => `${path}: ${each}`)
      })
    assert.deepEqual(missing, [])
  })

  test('a quadratic reader is found', () => {
    const slow: Reader = { read: (text) => /^summary:[ \t]*(.*?)[ \t\r]*$/m.exec(text) }
    assert.throws(() => mustBeLinear(slow, { start: 'summary: a', pump: ' ', end: 'b' }), /twice the text takes/)
  })
})
