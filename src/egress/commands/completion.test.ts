import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { egressProxy } from '../../../test/support/egress-cli.ts'
import { needs } from '../../../test/support/needs.ts'
import { completeInShell, SHELLS } from '../../../test/support/shell-completion.ts'
import { tempDir } from '../../../test/support/temp.ts'

suite('completion', () => {
  const asked: Record<string, string> = {
    'egress-proxy ': 'check completion help proxy run state',
    'egress-proxy pro': 'proxy',
    'egress-proxy proxy ': 'serve',
    'egress-proxy proxy serve --tr': '--transparent',
    'egress-proxy proxy serve --listen :1 --deny': '--deny-private',
    'egress-proxy state --d': '--denied',
    'egress-proxy completion ': 'bash fish zsh',
    'egress-proxy help ch': 'check',
  }
  for (const shell of SHELLS)
    test(`works in ${shell}`, shell === 'bash' ? {} : needs(shell), async (t) => {
      const script = join(tempDir(t), 'script')
      writeFileSync(script, (await egressProxy(['completion', shell])).stdout)
      for (const [line, words] of Object.entries(asked))
        assert.equal(completeInShell(shell, line, { script, fn: '_egress_proxy' }), words, line)
    })
  test('reports another shell as a usage error', async () => {
    const { code, stderr } = await egressProxy(['completion', 'tcsh'])
    assert.equal(code, 1)
    assert.match(stderr, /^egress-proxy: <shell> must be one of bash, zsh, fish\n/)
  })
})
