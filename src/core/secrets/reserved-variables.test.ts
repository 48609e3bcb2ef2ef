import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MODEL_FAMILIES } from './model-variables.ts'
import { isLoaderVariable, isServiceVariable } from './reserved-variables.ts'

const SET_BY_SVC = [
  ...['SVC_SOCKET', 'SVC_ANYTHING', 'PATH', 'HOME', 'LANG', 'TZ', 'HTTP_PROXY', 'https_proxy', 'no_proxy', 'ALL_PROXY'],
  ...['NODE_USE_ENV_PROXY', 'npm_config_noproxy', 'YARN_HTTP_PROXY', 'JAVA_TOOL_OPTIONS', 'GIT_SSH_COMMAND'],
]
const LOADERS = ['LD_PRELOAD', 'NODE_OPTIONS', 'BASH_ENV', 'ENV', 'GIT_CONFIG_COUNT', 'PYTHONPATH', 'CLAUDE_CONFIG_DIR']
const ORDINARY = ['GITHUB_TOKEN', 'API_KEY', 'CODEX_API_KEY', 'PATHS', 'PROXY', 'SVC', 'ENVIRONMENT', 'GITLAB_TOKEN']

test('reserves the names that svc sets, in any letter case', () => {
  for (const name of SET_BY_SVC) assert.ok(isServiceVariable(name), name)
  for (const name of [...ORDINARY, ...LOADERS, ...MODEL_FAMILIES.flat()]) assert.ok(!isServiceVariable(name), name)
})

test('recognizes names that make a program load code', () => {
  for (const name of LOADERS) assert.ok(isLoaderVariable(name), name)
  for (const name of [...ORDINARY, ...MODEL_FAMILIES.flat()]) assert.ok(!isLoaderVariable(name), name)
})
