// Runs the generated unit with a real systemd.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { commandsOf, sectionOf } from '../support/guide.ts'
import { needs } from '../support/needs.ts'
import { openSystemd, type Systemd } from '../support/systemd.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const PROGRAM = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')
const read = (path: string): string => readFileSync(join(import.meta.dirname, '..', '..', path), 'utf8')
const USER = 54_321
/** In the overlay, so the machine does not see it. Has blanks, a specifier, a variable, quotes and an escape of systemd. */
const DATA = `/var/lib/a b%h"$HOME'\\n`

suite('the unit under systemd', needs('systemd', 'bubblewrap', 'root', 'open checkout', 'curl'), () => {
  const place = tempDir({ after })
  let systemd: Systemd
  before(async () => {
    systemd = await openSystemd(place)
    await shell(`echo 'svctest:x:${USER}:${USER}::/nonexistent:/bin/false' >> /etc/passwd`)
  })

  after(() => systemd?.close())

  const shell = (script: string): Promise<string> => systemd.run('sh', '-ec', script)
  const svcCommand = (user: number, data: string, line: string): [string, ...string[]] => {
    const as = ['--reuid', `${user}`, '--regid', `${user}`, '--clear-groups', 'env', '--chdir', '/']
    const variables = [`HOME=${DATA}`, `SVC_DATA_DIR=${data}`]
    return ['setpriv', ...as, ...variables, process.execPath, PROGRAM, ...line.split(' ')]
  }
  const svc = (user: number, data: string, line: string): Promise<string> =>
    systemd.run(...svcCommand(user, data, line))
  /** Types the commands that `generate` prints. */
  const install = async (user: number, name: string, data: string): Promise<void> => {
    const { stderr } = await systemd.runBoth(...svcCommand(user, data, `generate ${name} --systemd`))
    const commands = stderr.slice(stderr.indexOf('To install and start it:\n')).split('\n').slice(1)
    assert.equal(commands.filter(Boolean).length, 3)
    try {
      await shell(commands.map((command) => command.replace('sudo ', '')).join('\n'))
    } catch (error) {
      throw new Error(await systemd.run('journalctl', '--no-pager', '--lines=50'), { cause: error })
    }
  }
  const create = async (user: number, name: string, data: string, port: number): Promise<void> => {
    await systemd.run('install', '-d', '-o', `${user}`, '-g', `${user}`, data)
    await svc(user, data, `create ${name}`)
    const env = `${data}/svc_${name}/.env`
    const lines = ['AGENT_RUNTIME=command', 'AGENT_COMMAND=id -u']
    await systemd.run('sed', '-i', `s/8080/${port}/; $a ${lines.join('\\n')}`, env)
    await svc(user, data, `token ${name} issue chat main`)
  }

  test('runs a turn in its cell, as the owner of the data directory, whatever its path is', async () => {
    await create(USER, 'demo', DATA, 8080)
    await install(USER, 'demo', DATA)
    // systemctl returned, so the instance answers.
    assert.equal(await svc(USER, DATA, 'send demo main hi --wait'), `${USER}\n`)
    assert.match(await shell('systemctl show svc-demo'), /^MainPID=[1-9]\d*$/m)
    assert.match(await svc(0, DATA, 'logs demo'), /^ready$/m)
    const readLines = async () => (await svc(0, DATA, 'logs demo webd --since 1h --json')).split('\n').filter(Boolean)
    await until(async () => (await readLines()).length > 0)
    for (const line of await readLines()) assert.equal(JSON.parse(line).daemon, 'webd')
    const followed = `timeout --signal=INT --preserve-status 3 "$@" | grep -c '"daemon":"webd"'`
    assert.match(await systemd.run('sh', '-c', followed, 'sh', ...svcCommand(0, DATA, 'logs demo -f --json')), /^[1-9]/)
    await shell('systemctl stop svc-demo')
    assert.match(await shell('systemctl show svc-demo'), /^Result=success$/m)
    const foreign = svc(USER + 1, DATA, 'generate demo --systemd')
    await assert.rejects(
      foreign,
      /svc_demo belongs to the user svctest\nhint: sudo -u 'svctest' SVC_DATA_DIR=\S.* \/\S+\/bin\/svc\.js generate demo --systemd\n/,
    )
  })

  test('runs agents as another user if root owns the data directory', async () => {
    const data = '/var/lib/svc-root'
    await create(0, 'rooted', data, 8180)
    await install(0, 'rooted', data)
    assert.equal(await svc(0, data, 'send rooted main hi --wait'), '60000\n')
    await shell('systemctl stop svc-rooted')
  })

  suite('with the commands of the guides', () => {
    /** Packages are not installed here: `svc` is the one of this checkout, as `npm install -g .` links it. */
    const INSTALLING = /^(apt-get install|npm install) /
    const programs = '/run/programs'
    const type = (command: string): Promise<string> =>
      systemd.run('env', '--chdir', '/srv', `PATH=${programs}:${process.env.PATH}`, 'sh', '-ec', command)
    before(async () => {
      await shell(`mkdir ${programs}
        printf '#!/bin/sh\\nexec ${process.execPath} ${PROGRAM} "$@"\\n' > ${programs}/svc
        chmod 755 ${programs}/svc`)
    })

    test('runs the section of the README, and a link answers', async () => {
      const commands = commandsOf(sectionOf(read('README.md'), '### Without containers'))
      const shown = commands.map((each) => each.replace(/ +#.*$/, '')).filter((each) => !each.startsWith('svc logs'))
      assert.deepEqual(shown, commandsOf(sectionOf(read('docs/server.md'), '## Install')))
      let printed = ''
      for (const command of commands.filter((each) => !INSTALLING.test(each))) printed = await type(command)
      const link = /^url: (.*)$/m.exec(printed)?.[1]
      assert.match(await type(`curl --silent --fail --data content=hi '${link}'`), /"turn_id"/)
    })

    test('shows logs, backs up and restores while the instance is served', async () => {
      const guide = read('docs/server.md')
      // The journal gets a line a moment after the response.
      await until(async () => (await type('svc logs acme webd --since 2h')).includes('POST'))
      for (const command of commandsOf(sectionOf(guide, '## Back up and restore'))) await type(command)
      assert.match(await type('svc group copy list'), /^main\t/)
      assert.match(await type('svc doctor acme'), /✓ unit: \S+ is up to date/)
    })

    test('rolls back from a store that a newer version changed', async () => {
      const backup = '`svc backup acme before.svcbackup --with-keys`'
      const steps = sectionOf(read('docs/server.md'), '## Roll back')
      const [stop = '', move = '', restore = '', start = ''] = [...steps.matchAll(/^\d\. `([^`]+)`/gm)].map(
        ([, each]) => each ?? '',
      )
      assert.ok(read('docs/server.md').includes(backup))
      await type(`${backup.slice(1, -1)}; chown svc before.svcbackup`)
      await type(stop)
      const newer = `insert into migrations select name, 99, applied_at from migrations limit 1`
      await type(
        `${process.execPath} -e 'new (require("node:sqlite").DatabaseSync)("/srv/data/svc_acme/store/svc.db").exec("${newer}")'`,
      )
      await assert.rejects(type('svc group acme list'), /this store was written by a newer svc than this one/)
      await type(move)
      await type(restore)
      await type(start)
      assert.match(await type('curl --silent --fail http://127.0.0.1:8080/health'), /ok/)
      await type('systemctl stop svc-acme')
    })
  })

  for (const directive of ['ProtectHostname=yes', 'ProtectKernelTunables=yes', 'RestrictNamespaces=yes'])
    test(`does not start with ${directive}, and says that cells do not work`, async () => {
      await shell(`mkdir -p /etc/systemd/system/svc-demo.service.d
        printf '[Service]\\nRestart=no\\n${directive}\\n' > /etc/systemd/system/svc-demo.service.d/more.conf
        systemctl daemon-reload`)
      await assert.rejects(shell('systemctl start svc-demo'), /control process exited with error code/)
      const journal = await shell('journalctl --no-pager -o cat -u svc-demo')
      assert.match(journal, /agents cannot run in cells: bubblewrap does not work in this systemd unit \(bwrap: .*\)/)
      await shell('rm -r /etc/systemd/system/svc-demo.service.d; systemctl daemon-reload')
    })
})
