// The texts of the chat in English, and the types of those in other languages. `{name}` is the place of a value.

export const en = {
  /** As a BCP 47 tag. */
  language: 'en',

  // The agent, topics and the empty chat.
  writeTo: 'Write to {name}',
  welcome: 'Your messages and the answers stay in this topic. You can close the page and come back.',
  suggestions: 'Suggestions',
  messages: 'Messages',
  latest: 'Latest',
  topics: 'Topics',
  newTopic: 'New topic',
  allTopics: 'All topics',
  searchTopics: 'Search topics',
  noTopicFound: 'No topic was found.',
  showMore: 'Show more',
  untitled: 'Untitled',
  removeTopic: 'Remove “{title}” from this list',
  renameTopic: 'Rename “{title}”',
  topicTitle: 'Title of the topic',
  deleteTopic: 'Delete “{title}”',
  deleteQuestion: 'Delete “{title}” with its messages?',
  save: 'Save',
  cancel: 'Cancel',
  delete: 'Delete',
  keep: 'Keep',
  dashboard: 'Dashboard',
  themeSystem: 'Theme: system',
  themeLight: 'Theme: light',
  themeDark: 'Theme: dark',

  // The composer.
  messageTo: 'Message {name}',
  writeMessage: 'Write a message',
  keys: 'Enter sends, Shift+Enter starts a new line',
  send: 'Send',
  addFiles: 'Add files',
  takePhoto: 'Take a photo',
  dropFiles: 'Drop files to add them to your message',
  filesOfMessage: 'Files of your message',
  filesAre: 'Files of your message: {names}',
  noFiles: 'No files',
  removeFile: 'Remove {name}',
  noFolders: 'A folder cannot be sent. Add its files instead.',
  notAdded: 'Not added: {names}.',
  andMore: '{names} and {count} more',
  fileMax: 'A file may have at most {size}.',
  filesMax: 'A message may have at most {count} files.',
  filesTotalMax: 'The files of a message may have at most {size} together.',
  record: 'Record a voice message (at most 10 minutes)',
  recording: 'Recording',
  recordingLength: 'Length of the recording',
  discardRecording: 'Discard the recording',
  finishRecording: 'Finish the recording',
  noRoom: 'Your message has no room for a voice message. Send it first, or remove a file.',
  recordingTooLong: 'The recording has ended, because it cannot be longer.',
  voiceMessage: 'Voice message {time}',
  microphoneForbidden: 'Your browser does not allow this page to use the microphone. Allow it and try again.',
  microphoneMissing: 'No microphone was found.',
  microphoneFails: 'The microphone cannot be used now.',

  // Messages.
  you: 'You',
  edit: 'Edit',
  editMessage: 'Edit your message',
  answerAgain: 'Answer again',
  versions: 'Versions of this message',
  previousVersion: 'Previous version',
  nextVersion: 'Next version',
  versionOf: '{current} of {count}',
  copy: 'Copy',
  copied: 'Copied',
  notCopied: 'Not copied',
  copyMessage: 'Copy this message',
  copyCode: 'Copy this code',
  code: 'text',
  done: 'Done',
  notDone: 'Not done',
  showAll: 'Show all ({count} characters)',
  transcript: 'Transcript: ',
  file: 'file',
  kilobytes: '{size} KB',
  megabytes: '{size} MB',
  download: 'Download {name}, {size}',
  loading: 'Loading …',
  fileNotLoaded: 'This file could not be loaded.',

  // The way of a message and its answer.
  sending: 'Sending …',
  upload: 'Upload',
  notSent: 'Not sent.',
  notSentYet: 'Not sent yet.',
  retrying: 'Not sent yet. Trying again …',
  tryAgain: 'Try again',
  working: '{name} is working',
  stop: 'Stop',
  stopAnswer: 'Stop the answer',
  stopping: 'Stopping …',
  stopped: 'Stopped',
  brokenOff: 'The answer broke off. Trying again …',
  noAnswer: 'There is no answer to this.',
  noAnswerBecause: 'There is no answer: {reason}',
  incompleteBecause: 'The answer is incomplete: {reason}',
  roundFailed: 'the round failed',
  toolCalls: 'Tool calls ({count})',
  callTook: '{state} in {ms} ms',

  // Problems.
  messageNotSent: 'The message was not sent.',
  uploadLost: 'The page was closed during an upload. Add the files again and send your message: {names}.',
  fileUnreadable: 'A file cannot be read any more: {name}. Remove it.',
  tooSlow: 'Your connection was too slow or was interrupted, so the message did not arrive. Send it again.',
  tooLong: 'This message is too long. Shorten it, or send it in parts.',
  tooManyMessages: 'Too many messages at once.',
  messageKept: 'Your message is kept; you can send it {when}.',
  inSeconds: 'in {seconds} s',
  inAMoment: 'in a moment',
  problem: '{reason}, so {consequence}.',
  problemWait: '{reason}, so {consequence}. Try again in {seconds} s.',
  tooManyRequests: 'Too many requests at once',
  serverBusy: 'The server is busy',
  serverUnreachable: 'The server cannot be reached',
  topicUnchanged: 'the topic was not changed',
  answerNotStopped: 'the answer was not stopped',
  serverAnswered: 'The server answered {status}',
  offline: 'You are offline. The chat continues when you are online again.',
  retryingBusy: 'The server is busy. Trying again …',
  retryingUnreachable: 'The server cannot be reached. Trying again …',
  linkGone: 'This link no longer works. Ask for a new one where you got it.',
  chatClosed: 'This chat is closed',
} as const

/** Of a widget before its chat is loaded. */
export const enWidget = {
  chat: 'Chat',
  close: 'Close',
  newMessage: '(new message)',
  notLoaded: 'The chat could not be loaded.',
} as const

/** Of pages without script. */
export const enPlain = {
  askQuestion: 'Ask a question. The answer appears on the next page.',
  yourMessage: 'Your message',
  nextMessage: 'Your next message',
  files: 'Files',
  limits: 'At most {count} files of {size} each, {total} together',
  waiting: 'Waiting for the answer',
  tryAgainIn: 'Try again in {time}.',
} as const

/** Fixed phrases that the server sends in English: what tools do, and why there is no answer. */
export const PHRASES = [
  // Tools, and then the tools that clients of models have.
  'Asking for help',
  'Changing a message',
  'Changing a scheduled task',
  'Changing the chat',
  'Looking at scheduled tasks',
  'Publishing a post',
  'Reacting to a message',
  'Reading messages',
  'Reading notes',
  'Scheduling a task',
  'Searching messages',
  'Sending a file',
  'Sending a message',
  'Sending a voice message',
  'Working',
  'Writing notes',
  'Changing a file',
  'Looking for files',
  'Looking on the web',
  'Planning the next steps',
  'Reading a file',
  'Running a command',
  'Searching in files',
  'Working on a part of the task',
  'Writing a file',
  // States of tool calls.
  'running',
  'ok',
  'failed',
  // Failures of answers.
  'the agent could not answer; try again later',
  'the agent cannot answer at the moment',
  'stopped',
  'the answer took too long',
  'the budget of this answer is used up',
  'the conversation is too long for the agent',
  'the answer is too long to be sent',
  'the group of this chat has been removed',
] as const

/** Fixed texts of pages about problems: a link that is gone, and the titles of others. */
export const PROBLEMS = [
  'This link does not work',
  'there is no such link, or it was revoked',
  'ask for a new one where you got it',
  'Invalid input',
  'Not signed in',
  'Not permitted',
  'Not found',
  'Method not allowed',
  'Conflict',
  'Too large',
  'Wrong content type',
  'Unprocessable',
  'Too many requests',
  'Not supported',
  'Unavailable',
  'Storage full',
] as const

type TableOf<English> = Readonly<Record<keyof English, string>>
type PhrasesOf<Phrases extends readonly string[]> = Readonly<Record<Phrases[number], string>>

/** The texts of a chat in one language. A phrase that is missing stays in English. */
export interface ChatTexts extends TableOf<typeof en> {
  readonly phrases: Partial<PhrasesOf<typeof PHRASES>>
}

/** All texts in one language. */
export interface Texts extends ChatTexts {
  readonly widget: TableOf<typeof enWidget>
  readonly plain: TableOf<typeof enPlain>
  readonly problems: Partial<PhrasesOf<typeof PROBLEMS>>
}

/** All texts in a language other than English. */
export interface Translation extends Texts {
  readonly phrases: PhrasesOf<typeof PHRASES>
  readonly problems: PhrasesOf<typeof PROBLEMS>
}
