// `npm run check`: checks types, lint and format at once, and prints what each found. `node test/check.ts --types <config>
// [<file>…]` checks only the named files of a config, or its own, and not again what they import.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import ts from 'typescript'

const BIN = join(import.meta.dirname, '..', 'node_modules')

const COMMANDS: readonly (readonly string[])[] = [
  // Remembers what it has found, so that the next check reads only what has changed.
  [join(BIN, 'typescript/bin/tsc'), '--noEmit', '--incremental', '--tsBuildInfoFile', join(BIN, '.cache/check.json')],
  [import.meta.filename, '--types', 'tsconfig.browser.json'],
  [join(BIN, '@biomejs/biome/bin/biome'), 'check', '.'],
]

const HOST: ts.FormatDiagnosticsHost = {
  getCanonicalFileName: (name) => name,
  getCurrentDirectory: ts.sys.getCurrentDirectory,
  getNewLine: () => '\n',
}

/** What is wrong with the files, as tsc prints it; empty if nothing is. */
function findTypeFaults(configPath: string, files: readonly string[]): string {
  const found: ts.Diagnostic[] = []
  const onUnRecoverableConfigFileDiagnostic = (fault: ts.Diagnostic): void => void found.push(fault)
  const config = ts.getParsedCommandLineOfConfigFile(configPath, {}, { ...ts.sys, onUnRecoverableConfigFileDiagnostic })
  if (config) {
    const program = ts.createProgram(config.fileNames, config.options)
    found.push(...config.errors, ...program.getOptionsDiagnostics(), ...program.getGlobalDiagnostics())
    const checked = files.length === 0 ? config.fileNames : files.map((file) => resolve(file))
    for (const file of checked) {
      const source = program.getSourceFile(file)
      if (!source) return `${configPath} does not include ${file}\n`
      found.push(...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source))
    }
  }
  return ts.formatDiagnostics(found, HOST)
}

async function run(args: readonly string[]): Promise<{ output: string; code: number }> {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk
    })
  const [code] = await once(child, 'close')
  return { output, code: typeof code === 'number' ? code : 1 }
}

const [mode, config = '', ...files] = process.argv.slice(2)
if (mode === '--types') {
  const faults = findTypeFaults(config, files)
  process.stdout.write(faults)
  process.exitCode = faults === '' ? 0 : 1
} else {
  for (const { output, code } of await Promise.all(COMMANDS.map(run))) {
    process.stdout.write(output)
    if (code !== 0) process.exitCode = 1
  }
}
