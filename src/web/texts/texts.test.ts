import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { createContext, Script } from 'node:vm'
import fc from 'fast-check'
import ts from 'typescript'
import { joinModules } from '../chat/script.ts'
import { de } from './de.ts'
import { PHRASES, PROBLEMS } from './en.ts'
import { chatFileOf, chooseLanguage, fill } from './language.ts'
import { chatTexts, chooseTexts, ENGLISH, LANGUAGES, loaderTexts } from './texts.ts'

const WEB = join(import.meta.dirname, '..')

/** The texts by their path, such as `plain.files`. */
function flatten(texts: object, prefix = ''): Map<string, string> {
  return new Map(
    Object.entries(texts).flatMap(([key, text]) =>
      typeof text === 'string' ? [[prefix + key, text] as const] : [...flatten(text, `${prefix}${key}.`)],
    ),
  )
}

const placesOf = (text = ''): string[] => [...text.matchAll(/\{(\w*)\}/g)].map(([, name = '']) => name).sort()

suite('the texts of the chat', () => {
  const identity = (phrases: readonly string[]) => Object.fromEntries(phrases.map((phrase) => [phrase, phrase]))
  const english = flatten({ ...ENGLISH, phrases: identity(PHRASES), problems: identity(PROBLEMS) })

  for (const texts of LANGUAGES.filter((each) => each !== ENGLISH)) {
    test(`have the same keys and places in ${texts.language} as in English, and none is empty`, () => {
      const translated = flatten(texts)
      assert.deepEqual([...translated.keys()].sort(), [...english.keys()].sort())
      for (const [key, text] of translated) {
        assert.deepEqual(placesOf(text), placesOf(english.get(key)), key)
        assert.ok(text.trim() === text || english.get(key)?.trim() !== english.get(key), `${key}: ${text}`)
        assert.notEqual(text, '', key)
      }
    })
  }

  test('have a language tag each, which no other has', () => {
    const tags = LANGUAGES.map(({ language }) => language)
    assert.deepEqual(Intl.getCanonicalLocales(tags), tags)
    assert.equal(new Set(tags.map(chatFileOf)).size, tags.length)
  })

  test('are all used', () => {
    const code = globSync('{browser,chat,text}/*.ts', { cwd: WEB })
      .filter((path) => !path.endsWith('.test.ts'))
      .map((path) => readFileSync(join(WEB, path), 'utf8'))
      .join('\n')
    const isUsed = (path: string): boolean => {
      const key = path.split('.').at(-1) ?? ''
      const taken = String.raw`\{[^{}]*\b${key}\b[^{}]*\}(?:: (?:Pick<)?(?:Chat)?Texts\b| = TEXTS\b)`
      return new RegExp(String.raw`'${key}'|\b(?:texts|TEXTS|plain)\.${key}\b|${taken}`).test(code)
    }
    const unused = [...flatten({ ...ENGLISH, phrases: {}, problems: {} }).keys()].filter((key) => !isUsed(key))
    assert.deepEqual(unused, [])
  })

  test('of a page or a panel are without those of other pages, and those of a button are in all languages', () => {
    assert.deepEqual(Object.keys(chatTexts(de)).sort(), [...Object.keys(chatTexts(ENGLISH))].sort())
    assert.ok(!JSON.stringify(chatTexts(de)).includes(de.plain.askQuestion))
    const { en, de: german } = loaderTexts()
    assert.deepEqual([en?.close, german?.close, german?.tryAgain], ['Close', 'Schließen', 'Erneut versuchen'])
  })
})

test('the closest language that is preferred is chosen, and English where there is none', () => {
  const cases: [preferred: string[], chosen: string][] = [
    [[], 'en'],
    [['de'], 'de'],
    [['DE-at'], 'de'],
    [['de-CH-1996', 'en'], 'de'],
    [['ar', 'fr', 'de', 'en'], 'de'],
    [['en-GB', 'de'], 'en'],
    [['ar'], 'en'],
    [['', '*', '-', 'd', 'den', 'deu', 'de_AT'], 'en'],
    [[' de '], 'de'],
    [['__proto__', 'constructor'], 'en'],
  ]
  for (const [preferred, chosen] of cases) assert.equal(chooseTexts(preferred).language, chosen, preferred.join())
  assert.equal(chooseLanguage(['pt-BR'], ['en', 'pt', 'pt-BR']), 'pt-BR')
  assert.equal(chooseLanguage(['pt-PT'], ['en', 'pt', 'pt-BR']), 'pt')
  fc.assert(fc.property(fc.array(fc.string({ unit: 'binary' })), (any) => LANGUAGES.includes(chooseTexts(any))))
})

test('values are put into a text as they are, and places without a value stay', () => {
  assert.equal(fill('{a} and {b}, {c} {a}', { a: '{b} $& $1', b: 2 }), '{b} $& $1 and 2, {c} {b} $& $1')
  assert.equal(fill('{constructor}', {}), '{constructor}')
  fc.assert(fc.property(fc.string(), (value) => fill('<{name}>', { name: value }) === `<${value}>`))
})

suite('the texts in a browser', () => {
  const run = (code: string, languages: readonly string[]): unknown =>
    new Script(`${joinModules(['texts/language', 'browser/texts'])}\n${code}`).runInContext(
      createContext({ TEXTS: chatTexts(de), navigator: { languages } }),
    )

  test('are those of its language', () => {
    assert.equal(run(`uiText('send') + ', ' + uiText('versionOf', { current: 2, count: 3 })`, []), 'Senden, 2 von 3')
  })

  test('come with times and numbers of the visitor’s own region, if that has the language', () => {
    assert.equal(run('uiLocale()', ['en-US', 'de-AT', 'de']), 'de-AT')
    assert.equal(run('uiLocale()', ['en-US', 'deu']), 'de')
  })
})

/** Modules of the chat whose texts are not shown: of the service worker, of other pages, and of a lexer. */
const OTHER_MODULES = /^(dash.*|passkey|offline|highlighter)\.ts$/
/** Functions that add each text to the page. */
const SHOWN_BY = new Set(['append', 'prepend', 'replaceChildren'])
const SHOWN_ATTRIBUTES = new Set(['aria-label', 'aria-description', 'title', 'placeholder', 'alt', 'label'])
const SHOWN_PROPERTIES = new Set(['textContent', 'innerText', 'title', 'placeholder', 'ariaLabel'])

/** Texts in the code of a module that a person could see. */
function shownLiterals(name: string, code: string): string[] {
  const source = ts.createSourceFile(name, code, ts.ScriptTarget.Latest, true)
  const found: string[] = []
  const visit = (node: ts.Node): void => {
    // What scripts of a site and consoles get.
    if (ts.isNewExpression(node) && /Error$/.test(node.expression.getText())) return
    if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) {
      const text = partsOf(node)
      if (/\p{L}/u.test(text) && (isShown(node) || isSentence(text))) found.push(node.getText())
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

/** Without the values between the parts, which are visited by themselves. */
function partsOf(node: ts.StringLiteralLike | ts.TemplateExpression): string {
  if (ts.isStringLiteralLike(node)) return node.text
  return [node.head, ...node.templateSpans.map(({ literal }) => literal)].map(({ text }) => text).join(' ')
}

/** Not the path of an icon nor a list of properties, such as `M6 6l12 12` and `var(--text)`. */
function isSentence(text: string): boolean {
  return /(?:^|[^\p{L}-])\p{Lu}\p{Ll}+ |\p{L} \p{Lu}\p{Ll}+\b/u.test(text)
}

function isShown(node: ts.Node): boolean {
  let child = node
  // Through `a ? 'text' : b`, `a || 'text'` and `...['text']`.
  while (
    ts.isParenthesizedExpression(child.parent) ||
    (ts.isConditionalExpression(child.parent) && child.parent.condition !== child) ||
    (ts.isBinaryExpression(child.parent) && /^(\|\||\?\?|\+)$/.test(child.parent.operatorToken.getText()))
  )
    child = child.parent
  const { parent } = child
  if (ts.isCallExpression(parent)) {
    const name = parent.expression.getText().split('.').at(-1) ?? ''
    const [first, second] = parent.arguments
    if (name === 'iconButton' || name === 'copyButton') return first === child
    if (name === 'element') return first !== child && second !== child
    return SHOWN_BY.has(name) && !/^form\./.test(parent.expression.getText())
  }
  if (ts.isPropertyAssignment(parent))
    return parent.initializer === child && SHOWN_ATTRIBUTES.has(parent.name.getText().replace(/['"]/g, ''))
  if (!ts.isBinaryExpression(parent) || parent.operatorToken.kind !== ts.SyntaxKind.EqualsToken) return false
  return ts.isPropertyAccessExpression(parent.left) && SHOWN_PROPERTIES.has(parent.left.name.text)
}

suite('a text in the code of the chat', () => {
  test('is found where a person could see it', () => {
    const shown = [
      `element('p', {}, 'Hello')`,
      `element('p', {}, \`Write to \${name}\`)`,
      `element('b', { 'aria-label': 'Close' })`,
      `element('input', { placeholder: a || 'Search' })`,
      `iconButton('Close', icon)`,
      `node.textContent = isDone ? 'Done' : ''`,
      `const PROBLEM = 'No microphone was found.'`,
      `node.append('later')`,
    ]
    for (const code of shown) assert.equal(shownLiterals('a.ts', code).length, 1, code)
  })

  test('is not found elsewhere', () => {
    const hidden = [
      `import a from './nodes.ts'`,
      `element('button', { type: 'button', class: 'icon close' }, uiText('send'), ' ')`,
      `throw new TypeError('on needs a function')`,
      `iconButton(uiText('close'), lineIcon('M6 6l12 12'), 'icon close')`,
      `const type = 'audio/webm;codecs=opus'`,
      `matchMedia('(pointer: coarse)')`,
      `headers.get('Retry-After')`,
      `form.append('content', content)`,
      `link.rel = 'noreferrer noopener nofollow'`,
      `node.style.height = 'auto'`,
    ]
    for (const code of hidden) assert.deepEqual(shownLiterals('a.ts', code), [], code)
  })

  const modules = globSync('browser/*.ts', { cwd: WEB }).filter(
    (path) => !path.endsWith('.test.ts') && !OTHER_MODULES.test(path.replace('browser/', '')),
  )
  for (const path of [...modules, 'text/wording.ts', 'text/file-names.ts', 'text/agent-profile.ts'])
    test(`is none in ${path}, but in the files of the languages`, () => {
      assert.deepEqual(shownLiterals(path, readFileSync(join(WEB, path), 'utf8')), [])
    })
})
