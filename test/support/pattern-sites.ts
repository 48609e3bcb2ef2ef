// Finds the regular expressions of a TypeScript file: literals, and `new RegExp` with a text that the file itself contains.
import ts from 'typescript'

export interface PatternSite {
  readonly line: number
  readonly source: string
  readonly flags: string
}

export function findPatterns(path: string, text: string): PatternSite[] {
  const file = ts.createSourceFile(path, text, {
    languageVersion: ts.ScriptTarget.Latest,
    jsDocParsingMode: ts.JSDocParsingMode.ParseNone,
  })
  const sites: PatternSite[] = []
  const constants = new Map<string, ts.Expression>()
  const add = (node: ts.Node, source: string, flags: string): void => {
    sites.push({ line: file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1, source, flags })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.initializer)
      constants.set(node.name.text, node.initializer)
    if (node.kind === ts.SyntaxKind.RegularExpressionLiteral) {
      const literal = node.getText(file)
      const end = literal.lastIndexOf('/')
      add(node, literal.slice(1, end), literal.slice(end + 1))
    } else if (isRegExpCall(node)) {
      const [source, flags] = (node.arguments ?? []).map((argument) => textOf(argument, constants))
      if (source !== undefined) add(node, source, flags ?? '')
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return sites
}

function isRegExpCall(node: ts.Node): node is ts.NewExpression | ts.CallExpression {
  return (
    (ts.isNewExpression(node) || ts.isCallExpression(node)) &&
    ts.isIdentifier(node.expression) &&
    node.expression.text === 'RegExp'
  )
}

/** The text of a string, a template or a constant. A value that the file does not contain counts as one letter. */
function textOf(node: ts.Expression, constants: ReadonlyMap<string, ts.Expression>): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text
  if (ts.isTemplateExpression(node)) {
    const parts = node.templateSpans.map(
      ({ expression, literal }) => `${textOf(expression, constants) ?? 'x'}${literal.text}`,
    )
    return [node.head.text, ...parts].join('')
  }
  if (ts.isTaggedTemplateExpression(node) && ts.isNoSubstitutionTemplateLiteral(node.template))
    return node.template.rawText
  const initializer = ts.isIdentifier(node) ? constants.get(node.text) : undefined
  return initializer && initializer !== node ? textOf(initializer, constants) : undefined
}
