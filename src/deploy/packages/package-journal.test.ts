import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'
import { listTree } from '../../../test/support/package-files.ts'
import { packageHost } from '../../../test/support/package-host.ts'
import { fillUp, onSmallDisk } from '../../../test/support/small-disk.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../../core/layout.ts'
import { applyPackage, type PackageInstance, recoverPackages } from './package-change.ts'
import { findJournals, stageChange } from './package-journal.ts'

suite('a change of a package', () => {
  test('on a full disk is refused and leaves nothing', needs('root'), async (t) => {
    await onSmallDisk(tempDir(t), 'tmpfs', async (root) => {
      const places = layout(root)
      fillUp(root, 64 * 1024)
      const before = listTree(root)
      const data = Buffer.alloc(200 * 1024, 'x')
      const assets = new Map([['services/gate.yml', { data, isExecutable: false }]])
      const journal = { name: 'gate', after: { revision: '1', hashes: {} }, force: false }
      await assert.rejects(stageChange(places, journal, assets), isRefusal('unavailable', /the disk is full$/))
      assert.deepEqual(listTree(root), before)
      assert.deepEqual(await findJournals(places), [])
    })
  })

  test('that fails after its commit says so, and the next command completes it', async (t) => {
    const { instance, root, load, state, install, remove } = await packageHost(t, 'sqlite')
    await install(await load())
    const done = await state()
    await remove()
    // What a disk that fails at the wrong moment does.
    const failing: PackageInstance = {
      ...instance,
      call: async (verb, input) => {
        const reply = await instance.call(verb, input)
        writeFileSync(join(root, 'services'), 'in the way')
        return reply
      },
    }
    await assert.rejects(applyPackage(failing, await load(), { force: false }), (error) => {
      assert.ok(isRefusal('conflict', /^the rows of gate are written, but not all of its files: cannot create /)(error))
      return true
    })
    rmSync(join(root, 'services'))
    assert.deepEqual(await recoverPackages(instance), ['completed the install of gate, which was interrupted'])
    assert.deepEqual(await state(), done)
  })

  test('whose commit is refused leaves nothing', async (t) => {
    const { instance, load, state } = await packageHost(t, 'sqlite')
    const before = await state()
    const refusing: PackageInstance = {
      ...instance,
      call: async (verb, input) => {
        await instance.call(verb, { ...input, replaces: 'another revision' })
        throw new Error('not reached')
      },
    }
    await assert.rejects(applyPackage(refusing, await load(), { force: false }), isRefusal('conflict', /not installed/))
    assert.deepEqual(await state(), before)
  })

  test('that was staged without a journal is removed', async (t) => {
    const places = layout(tempDir(t))
    mkdirSync(join(places.packageChanges, 'gate/new/services'), { recursive: true })
    writeFileSync(join(places.packageChanges, 'gate/new/services/gate.yml'), 'half')
    assert.deepEqual(await findJournals(places), [])
    assert.deepEqual(readdirSync(places.root), [])
  })
})
