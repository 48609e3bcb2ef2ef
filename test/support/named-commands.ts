// Finds the commands of svc that texts in src/ name: hints, messages, findings of doctor and pages.
import { readFileSync } from 'node:fs'
import { glob } from 'node:fs/promises'
import { join } from 'node:path'
import ts from 'typescript'
import { readArguments } from '../../src/lib/command-line/argv.ts'
import type { ProgramCommands } from '../../src/lib/command-line/program.ts'
import { type ArgumentValues, type CommandDescription, parseUsage } from '../../src/lib/command-line/usage.ts'

const ROOT = join(import.meta.dirname, '..', '..')
/** In place of what is filled in when the text is shown. */
const FILLED_IN = '<value>'

export interface NamingText {
  /** `path:line`. */
  readonly at: string
  /** With each choice of its conditions, and placeholders for values. */
  readonly text: string
  /** Whether all of it is one command, for a person to copy. */
  readonly isCommand: boolean
}

export interface NamedCommand extends NamingText {
  readonly usage: string
  readonly argv: readonly string[]
  readonly args: ArgumentValues
}

export async function textsWithCommands(): Promise<NamingText[]> {
  const found: NamingText[] = []
  for await (const path of glob('src/**/*.ts', { cwd: ROOT })) {
    const source = readFileSync(join(ROOT, path), 'utf8')
    if (/\.test\.ts$/.test(path) || !/svc [a-z]/.test(source)) continue
    const file = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, true)
    const visit = (node: ts.Node): void => {
      const texts = isText(node) ? choicesOf(node) : undefined
      if (!texts) {
        ts.forEachChild(node, visit)
        return
      }
      const { line } = file.getLineAndCharacterOfPosition(node.getStart(file))
      const isCommand = isShownAsCommand(node)
      for (const text of texts) found.push({ at: `${path}:${line + 1}`, text, isCommand })
      // A value may itself be a text.
      if (ts.isTemplateExpression(node)) for (const { expression } of node.templateSpans) visit(expression)
    }
    visit(file)
  }
  return found
}

function isText(node: ts.Node): node is ts.StringLiteralLike | ts.TemplateExpression {
  return ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)
}

/** `view.command(…)` and `view.inTerminal(…)`. */
function isShownAsCommand({ parent }: ts.Node): boolean {
  return (
    ts.isCallExpression(parent) &&
    ts.isPropertyAccessExpression(parent.expression) &&
    ['command', 'inTerminal'].includes(parent.expression.name.text)
  )
}

/** Every text that the expression may give, with a placeholder for what only runs know. */
function choicesOf(node: ts.Expression): string[] {
  if (ts.isStringLiteralLike(node)) return [node.text]
  if (ts.isParenthesizedExpression(node)) return choicesOf(node.expression)
  if (ts.isConditionalExpression(node)) return [...choicesOf(node.whenTrue), ...choicesOf(node.whenFalse)]
  if (!ts.isTemplateExpression(node)) return [FILLED_IN]
  let texts = [node.head.text]
  for (const { expression, literal } of node.templateSpans) {
    const choices = choicesOf(expression)
    texts = texts.flatMap((start) => choices.map((choice) => start + choice + literal.text))
  }
  return texts
}

/** After the name of the program, before a value, in texts that name no command. */
const VERBS: readonly string[] = ['at', 'ended', 'instance']

const QUOTED_OR_PLAIN = /'[^']*'|"[^"]*"|\S+/g

/**
 * The commands in a text, or the faults of those that svc does not have. A command in a sentence ends where the sentence goes on in
 * words; what comes next must not look like an argument. Without an instance, as in `svc model`, only the first word is checked.
 */
export async function commandsIn(
  naming: NamingText,
  commands: ProgramCommands<CommandDescription>,
): Promise<{ readonly commands: NamedCommand[]; readonly faults: string[] }> {
  const found: NamedCommand[] = []
  const faults: string[] = []
  for (const { index, 0: start } of naming.text.matchAll(/(?<![\w/.-])svc (?=[a-z])/g)) {
    const words = firstSentence(naming.text.slice(index + start.length))
    const [noun = '', second] = words
    const load = Object.hasOwn(commands, noun) ? commands[noun] : undefined
    const isWhole = naming.isCommand && index === 0
    const hasInstance = second !== undefined && /^<.*>$/.test(second)
    if (!load || !hasInstance) {
      // Without the instance it names the program, as in "svc runs", or a command.
      if (isWhole || (!load && hasInstance && !VERBS.includes(noun)))
        faults.push(`${naming.at}: svc ${words.join(' ')}`)
      continue
    }
    const lines = await load()
    const parsed = longestCommand(lines, words.slice(1), isWhole)
    const next = parsed && words[1 + parsed.count]
    if (!parsed || (next !== undefined && /^[-<'"\d]/.test(next))) faults.push(`${naming.at}: svc ${words.join(' ')}`)
    else found.push({ ...naming, usage: parsed.usage, argv: words.slice(0, 1 + parsed.count), args: parsed.args })
  }
  return { commands: found, faults }
}

/** The words up to a punctuation mark, without quotes. */
function firstSentence(text: string): string[] {
  const words: string[] = []
  for (const [word] of text.replaceAll(/<\/[a-z]+>/g, ' ').matchAll(QUOTED_OR_PLAIN)) {
    if (/^(?:[#|>…].*|<)$/.test(word)) break
    const bare = word.replace(/[,;:.)`"]+$/, '')
    if (bare !== '') words.push(bare.replace(/^(['"])(.*)\1$/, '$2'))
    if (bare !== word) break
  }
  return words
}

function longestCommand(lines: readonly CommandDescription[], words: readonly string[], isWhole: boolean) {
  for (let count = words.length; count >= (isWhole ? words.length : 0); count--) {
    const reading = readArguments(lines, words.slice(0, count))
    if (reading.kind === 'run') return { count, usage: reading.command.usage, args: reading.args }
  }
  return undefined
}

/** The command with these values for its placeholders; undefined if one has no value here. */
export function fillIn({ argv: [noun = ''], usage, args }: NamedCommand, values: Readonly<Record<string, string>>) {
  const { parts, flags } = parseUsage(usage)
  const filled = (name: string, given: unknown): string | undefined => {
    const text = String(given)
    if (!text.includes('<')) return text
    const value = values[name]
    return value && text.replaceAll(/<[^>]*>/g, value)
  }
  const words = parts.flatMap((part) => {
    if (part.kind === 'word') return [part.text]
    const given = args[part.name]
    return given === undefined ? [] : [given].flat().map((word) => filled(part.name, word))
  })
  const options = flags.flatMap(({ name, key, takesValue }) => {
    const given = args[key]
    if (given === undefined || given === false) return []
    return takesValue ? [given].flat().flatMap((value) => [`--${name}`, filled(name, value)]) : [`--${name}`]
  })
  const line = [noun, ...words, ...options]
  return line.every((word) => word !== undefined) ? line : undefined
}
