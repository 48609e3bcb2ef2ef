// Finds callbacks and promises of the server whose exception would end the process, because they are outside of the fault
// boundary (src/lib/fault-boundary.ts). It reads syntax only: what it cannot judge is a violation.
import ts from 'typescript'

/** Methods of event emitters and targets: `socket.on('data', callback)`. */
const EVENT_METHODS = new Set(['on', 'once', 'addListener', 'prependListener', 'addEventListener'])
const TIMERS = new Set(['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'nextTick'])
/** Functions of Node that call their last argument later. */
const CALLBACK_LAST = new Set([
  'createServer',
  'request',
  'connect',
  'write',
  'send',
  'end',
  'close',
  'listen',
  'execFile',
])
/** Calls that do not throw, or only for wrong types: of Node, of collections, and of promises. */
const HARMLESS_CALLS = new Set([
  ...['destroy', 'destroySoon', 'resume', 'pause', 'clearTimeout', 'clearInterval', 'resolve', 'reject', 'delete'],
  ...['abort', 'kill', 'ref', 'unref', 'cancel', 'has', 'get', 'set', 'add', 'clear', 'now', 'includes', 'values'],
  ...['closeIdleConnections', 'closeAllConnections', 'slice', 'trim', 'max', 'min', 'String', 'setHeader', 'concat'],
  ...['end', 'unpipe', 'exit', 'errnoCode', 'randomUUID'],
  // Their callbacks are checked where they are registered.
  ...['on', 'once', 'off', 'then', 'catch', 'finally', 'setTimeout', 'setImmediate', 'queueMicrotask', 'find'],
])
/** `void call(…)` of these returns no promise. */
const RETURNS_NO_PROMISE = new Set([
  ...['add', 'call', 'delete', 'destroy', 'disable', 'end', 'logResponse', 'once', 'push', 'refuse', 'reject'],
  ...['sendPrebuilt', 'setTimeout', 'update', 'write'],
])
/** Handlers of faults, by convention: they report and never throw. */
const FAULT_HANDLER = /^#?(?:on\w*(?:Fault|Error|Failure)|fail|report\w*|handler|throwUncaught)$/

type FunctionNode = ts.ArrowFunction | ts.FunctionExpression | ts.FunctionDeclaration | ts.MethodDeclaration

export interface UnguardedCallback {
  readonly path: string
  /** The first line of the call. */
  readonly code: string
}

/** Files without any of these need not be parsed. */
const CANDIDATE =
  /\.(?:on|once|\w+Listener)\(|\bset(?:Timeout|Interval|Immediate)\(|\b(?:queueMicrotask|nextTick|createServer)\(|\bvoid \w|\.(?:write|send|end|close|request|connect)\(.*=>/

export function unguardedCallbacks(path: string, text: string): UnguardedCallback[] {
  if (!CANDIDATE.test(text)) return []
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const rules = new FileRules(file)
  const found: UnguardedCallback[] = []
  const visit = (node: ts.Node): void => {
    if (rules.isViolation(node)) found.push({ path, code: node.getText().split('\n')[0] ?? '' })
    ts.forEachChild(node, visit)
  }
  visit(file)
  return found
}

class FileRules {
  /** Functions and variables of the file by name; private members keep their `#`. */
  readonly #declared = new Map<string, ts.Node[]>()
  readonly #visiting = new Set<ts.Node>()

  constructor(file: ts.SourceFile) {
    const visit = (node: ts.Node): void => {
      const isNamed =
        ts.isFunctionDeclaration(node) ||
        ts.isMethodDeclaration(node) ||
        ts.isVariableDeclaration(node) ||
        ts.isPropertyDeclaration(node)
      if (isNamed && node.name && !ts.isObjectBindingPattern(node.name)) {
        const value = ts.isVariableDeclaration(node) || ts.isPropertyDeclaration(node) ? node.initializer : node
        const name = node.name.getText()
        if (value) this.#declared.set(name, [...(this.#declared.get(name) ?? []), value])
      }
      ts.forEachChild(node, visit)
    }
    visit(file)
  }

  isViolation(node: ts.Node): boolean {
    if (ts.isVoidExpression(node)) return !this.#isHandledPromise(node.expression)
    const callback = ts.isCallExpression(node) ? callbackOf(node) : undefined
    return callback !== undefined && !this.#isSafe(callback)
  }

  #isSafe(callback: ts.Expression): boolean {
    if (ts.isArrowFunction(callback) || ts.isFunctionExpression(callback)) return this.#isSafeFunction(callback)
    // `faults.guard('stream', …)`, `guard(onFault, …)`, `faults.handler('stream')`.
    if (ts.isCallExpression(callback)) return /^(?:guard\w*|handler)$/.test(nameOf(callback.expression))
    const name = nameOf(callback)
    const values = this.#declared.get(name)
    if (!values) return FAULT_HANDLER.test(name) || name === 'resolve' || name === 'reject'
    return values.every((value) => this.#isSafeValue(value))
  }

  #isSafeValue(value: ts.Node): boolean {
    if (ts.isFunctionDeclaration(value) || ts.isMethodDeclaration(value)) return this.#isSafeFunction(value)
    return ts.isExpression(value) && this.#isSafe(value)
  }

  #isSafeFunction(node: FunctionNode): boolean {
    if (!node.body || this.#visiting.has(node)) return true
    this.#visiting.add(node)
    try {
      return this.#isHarmless(node.body)
    } finally {
      this.#visiting.delete(node)
    }
  }

  /** Nothing in it throws or rejects, apart from what it catches itself. */
  #isHarmless(node: ts.Node): boolean {
    if (ts.isTryStatement(node) && node.catchClause)
      return this.#isHarmless(node.catchClause.block) && (!node.finallyBlock || this.#isHarmless(node.finallyBlock))
    if (ts.isThrowStatement(node) || ts.isAwaitExpression(node)) return false
    if (ts.isNewExpression(node) && !/(?:Error|Refusal|Fault)$/.test(node.expression.getText())) return false
    if (ts.isVoidExpression(node)) return this.#isHandledPromise(node.expression)
    // A function inside is called by something that is checked where it is registered.
    if (ts.isArrowFunction(node) || ts.isFunctionExpression(node)) return true
    if (ts.isCallExpression(node) && nameOf(node.expression) === 'catch') return this.#isHandledPromise(node)
    if (ts.isCallExpression(node) && !this.#isHarmlessCall(node)) return false
    return ts.forEachChild(node, (child) => (this.#isHarmless(child) ? undefined : true)) === undefined
  }

  #isHarmlessCall({ expression }: ts.CallExpression): boolean {
    const name = nameOf(expression)
    const isOwn = ts.isIdentifier(expression) || (ts.isPropertyAccessExpression(expression) && isThis(expression))
    const values = isOwn ? this.#declared.get(name) : undefined
    return values ? values.every((value) => this.#isSafeValue(value)) : isHarmlessName(name)
  }

  #isHandledPromise(node: ts.Expression): boolean {
    if (!ts.isCallExpression(node)) return true
    const { expression: callee, arguments: given } = node
    const name = nameOf(callee)
    if (ts.isPropertyAccessExpression(callee) && (name === 'catch' || (name === 'then' && given.length === 2)))
      return given.every((handler) => this.#isSafe(handler) || name === 'then')
    if (ts.isPropertyAccessExpression(callee) && name === 'finally') return this.#isHandledPromise(callee.expression)
    const isOwn = ts.isIdentifier(callee) || (ts.isPropertyAccessExpression(callee) && isThis(callee))
    const values = isOwn ? this.#declared.get(name) : undefined
    if (!values) return name === 'close' ? isServer(callee) : RETURNS_NO_PROMISE.has(name)
    return values.every((value) => {
      const isFunction = ts.isFunctionDeclaration(value) || ts.isMethodDeclaration(value) || ts.isArrowFunction(value)
      if (!isFunction) return false
      const isAsync = /^Promise</.test(value.type?.getText() ?? 'Promise<') || hasAsync(value)
      return !isAsync || this.#isSafeFunction(value)
    })
  }
}

function isHarmlessName(name: string): boolean {
  return HARMLESS_CALLS.has(name) || FAULT_HANDLER.test(name)
}

function callbackOf({ expression, arguments: given }: ts.CallExpression): ts.Expression | undefined {
  const name = nameOf(expression)
  if (TIMERS.has(name)) return given[0]
  const last = given.at(-1)
  if (!last) return undefined
  if (ts.isPropertyAccessExpression(expression) && EVENT_METHODS.has(name))
    // `signals.on(listener)` guards its listeners itself, and `app.on('GET', path, …)` is a route.
    return given.length === 1 || nameOf(expression.expression) === 'app' ? undefined : given[1]
  // `engine.listen(listener)` guards its listeners itself.
  if (!CALLBACK_LAST.has(name) || (['listen', 'write'].includes(name) && given.length === 1)) return undefined
  return ts.isArrowFunction(last) || ts.isFunctionExpression(last) ? last : undefined
}

function nameOf(node: ts.Expression): string {
  if (ts.isPropertyAccessExpression(node)) return node.name.getText()
  return ts.isIdentifier(node) ? node.text : ''
}

/** Closing a server of Node returns no promise. */
function isServer(close: ts.Expression): boolean {
  return ts.isPropertyAccessExpression(close) && /server$/i.test(nameOf(close.expression))
}

function isThis({ expression }: ts.PropertyAccessExpression): boolean {
  return expression.kind === ts.SyntaxKind.ThisKeyword
}

function hasAsync(node: FunctionNode): boolean {
  return node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.AsyncKeyword) ?? false
}
