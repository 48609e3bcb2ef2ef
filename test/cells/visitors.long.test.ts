// What a run for visitors of a chat can read and write, in a real cell.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { chatDir, chatFilesDir, layout } from '../../src/core/layout.ts'
import {
  type AttackHost,
  agentUidOf,
  attackHost,
  ENV_SECRET,
  FailedAttack,
  forEachUser,
  openFifoGate,
  type SvcUser,
} from '../support/attack.ts'
import { type AttackInstance, attackInstance, type ServedInstance } from '../support/attack-instance.ts'
import { numberOf, perl } from '../support/attack-programs.ts'

const EXCHANGES_MIN = 5_000
const STARTS = 60
const AT_FDCWD = -100
const RENAME_EXCHANGE = 2

const VISITOR = { reach: 'chat', jid: 'web:team' } as const
const OTHER_VISITOR = { reach: 'chat', jid: 'web:team-2' } as const

/** Writes files to the workspace of `team`, owned by its agent. */
function writeFiles(user: SvcUser, { home }: AttackHost, files: Readonly<Record<string, string>>): void {
  const give = (path: string): void => {
    if (process.getuid?.() === 0) chownSync(path, agentUidOf(user), agentUidOf(user))
  }
  for (const [path, text] of Object.entries(files)) {
    const parts = path.split('/')
    for (const [index] of parts.slice(1).entries()) {
      const directory = join(home(), ...parts.slice(0, index + 1))
      if (existsSync(directory)) continue
      mkdirSync(directory)
      give(directory)
    }
    writeFileSync(join(home(), path), text, { mode: path.endsWith('.sh') ? 0o755 : 0o644 })
    give(join(home(), path))
  }
}

forEachUser('a run of reach work', [], (user) => {
  const host = attackHost(user)
  const HOOK = { reach: 'work', jid: 'hook:team/ci' } as const

  test('changes nothing that decides how later turns run', async () => {
    const { attack, home } = host()
    writeFiles(user, host(), {
      'agent.sh': 'echo honest',
      'PERSONA.md': 'kind',
      'MEMORY.md': 'noted',
      '.claude/settings.json': '{}',
      '.claude/sessions.json': 'of others',
      '.mcp.json': '{}',
      '.git/hooks/pre-commit': '',
      'data/kept': '',
    })
    const write =
      'for f in agent.sh PERSONA.md CLAUDE.md .mcp.json .claude/settings.json .claude/skills/x .git/hooks/pre-commit .profile data/../x; do echo evil > $f; done 2>/dev/null; rm -f agent.sh 2>/dev/null; mv data d2 2>/dev/null; ln -s .. data/up; echo out > data/report; cat agent.sh PERSONA.md MEMORY.md .claude/settings.json; ls -A .claude | xargs'
    assert.equal(await attack(write, HOOK), 'echo honestkindnoted{}CLAUDE.md settings.json skills')
    assert.equal(readFileSync(join(home(), 'data/report'), 'utf8'), 'out\n')
    const later = 'sh agent.sh; cat PERSONA.md data/report; ls -A . .claude data | xargs; echo $HOME'
    assert.match(await attack(later, { reach: 'all' }), /^honest\nkindout\n/)
    for (const name of ['x', 'd2', '.profile', 'CLAUDE.md', '.claude/skills/x'])
      assert.ok(!existsSync(join(home(), name)), name)
  })

  test('has a HOME of its own, apart from visitors of the same chat and from runs of reach all', async () => {
    const { attack } = host()
    const work = { reach: 'work', jid: VISITOR.jid } as const
    await attack('echo evil > ~/.profile; mkdir -p ~/.claude; echo evil > ~/.claude/settings.json', VISITOR)
    assert.equal(await attack('echo $HOME; ls -A ~; echo mine > ~/session', work), '/home/chat')
    assert.equal(await attack('cat ~/session', work), 'mine')
    assert.equal(await attack('ls ~/session', { ...work, jid: 'hook:team/ci', silent: true }), '')
    assert.equal(await attack('ls ~/session', { ...VISITOR, silent: true }), '')
    assert.equal(await attack('echo $HOME; ls ~/session', { reach: 'all', silent: true }), '/home/node')
  })

  test('keeps its directory when it makes it look like a workspace, and cannot lead the mount elsewhere', async () => {
    const { attack, home } = host()
    writeFiles(user, host(), { 'data/kept': '' })
    await attack('mkdir -p data/.claude; echo 1 > data/one', HOOK)
    assert.equal(await attack('cat data/one; echo 2 >> data/one; cat data/one | wc -l', HOOK), '1\n2')
    rmSync(join(home(), 'data'), { recursive: true })
    symlinkSync('/etc', join(home(), 'data'))
    await attack('touch data/x 2>/dev/null; true', HOOK)
    assert.ok(!existsSync('/etc/x'))
    rmSync(join(home(), 'data'))
  })
})

/** As an upload leaves it, with svc running as `user`. */
function uploadFile(user: SvcUser, { root }: AttackHost, place: { folder: string; jid: string }, text: string): string {
  const path = chatFilesDir(layout(root), place)
  const [uid, mode] = user === 'root' ? [0, 0o700] : [agentUidOf(user), 0o700]
  mkdirSync(path, { recursive: true, mode })
  writeFileSync(join(path, 'f1.txt'), text, { mode: 0o444 })
  if (process.getuid?.() === 0)
    for (const each of [dirname(path), path, join(path, 'f1.txt')]) chownSync(each, uid, uid)
  return path
}

forEachUser('files that visitors have sent', [], (user) => {
  const host = attackHost(user)
  const place = { folder: 'team', jid: VISITOR.jid }

  test('are at /home/files for every run of their chat, and for no other', async () => {
    const { attack } = host()
    uploadFile(user, host(), place, 'of team')
    uploadFile(user, host(), { folder: 'other', jid: VISITOR.jid }, 'of other')
    for (const reach of ['chat', 'work', 'all'] as const) {
      const at = { reach, jid: VISITOR.jid }
      assert.equal(await attack('ls -A /home/files; cat /home/files/*', at), 'f1.txt\nof team', reach)
      assert.equal(await attack('cat /home/files/*', { ...at, folder: 'other' }), 'of other')
      assert.equal(await attack('ls -d /home/files', { ...at, jid: 'web:team-2', silent: true }), '')
      assert.equal(await attack('ls -d /home/files', { ...at, folder: 'team/child', silent: true }), '')
    }
  })

  test('cannot be changed, replaced, or made to lead elsewhere', async () => {
    const { attack } = host()
    const path = uploadFile(user, host(), place, 'kept')
    const changing =
      'cd /home/files; echo x > f1.txt; echo x >> f1.txt; rm -f f1.txt; mv f1.txt f2.txt; ln -s /etc up; ln f1.txt ~/f1; touch new; mkdir d; chmod 777 . f1.txt; chown 1 f1.txt; touch -d yesterday f1.txt; cd /; mv /home/files /home/old; rmdir /home/files; ln -sfn /etc /home/files; mount -o remount,rw /home/files; umount /home/files; unshare -Ur mount -o remount,rw /home/files'
    for (const reach of ['chat', 'work', 'all'] as const) {
      const at = { reach, jid: VISITOR.jid }
      await attack(changing, { ...at, silent: true })
      assert.equal(await attack('ls -A /home/files; cat /home/files/f1.txt', at), 'f1.txt\nkept', reach)
    }
    assert.deepEqual(readdirSync(path), ['f1.txt'])
    const { mode, uid } = statSync(join(path, 'f1.txt'))
    assert.deepEqual([mode & 0o777, uid], [0o444, user === 'root' ? 0 : agentUidOf(user)])
    assert.equal(statSync(path).mode & 0o077, 0)
  })

  test('are not a link that someone put in the place of their directory', async () => {
    const { attack, root } = host()
    const path = chatFilesDir(layout(root), { folder: 'team', jid: 'web:swapped' })
    uploadFile(user, host(), place, 'kept')
    symlinkSync(join(root, 'groups', 'other'), path)
    await assert.rejects(attack('cat /home/files/*', { reach: 'all', jid: 'web:swapped' }), FailedAttack)
    rmSync(path)
  })
})

forEachUser("files of a visitors' chat", [], (user) => {
  const host = attackHost(user)

  test('are in its HOME outside of the workspace, visible only to later turns of that chat', async () => {
    const { attack, home, root } = host()
    const first =
      'pwd; echo $HOME; getent passwd agent | cut -d: -f6; echo mine > ~/note; mkdir -p ~/.claude; echo s > ~/.claude/1'
    assert.equal(await attack(first, VISITOR), '/home/node\n/home/chat\n/home/chat')
    assert.equal(await attack('cat ~/note ~/.claude/1; ls -A ~', VISITOR), 'mine\ns\n.claude\nnote')
    assert.equal(await attack('ls -A ~', OTHER_VISITOR), '')
    assert.equal(await attack('ls -A ~', { ...VISITOR, folder: 'other' }), '')
    // A run of the same folder for other senders.
    assert.equal(
      await attack('echo $HOME; ls -d /home/* ~/note; cat ~/.claude/1', { reach: 'all', silent: true }),
      '/home/node\n/home/node',
    )
    const kept = chatDir(layout(root), { folder: 'team', jid: 'web:team', reach: 'chat' })
    assert.equal(readFileSync(join(kept, 'note'), 'utf8'), 'mine\n')
    assert.ok(!existsSync(join(home(), 'note')))
  })

  test('are the only writable files besides the temporary directories', async () => {
    writeFiles(user, host(), { 'facts/a.md': 'a fact', 'notes.txt': 'a note', 'deep/er/x': 'x' })
    const { attack } = host()
    const places =
      '/ /home /home/node /home/node/facts /home/node/deep/er /home/node/.claude /home/node/.claude/skills /run'
    const touching = `for at in ${places}; do touch $at/x-new && echo $at; done; echo x >> facts/a.md && echo facts; echo x > notes.txt && echo notes; rm -f deep/er/x && echo removed; mv notes.txt n && echo moved; chmod 777 facts && echo chmod; ln -s / link && echo link`
    assert.equal(await attack(`${touching}; true`, { ...VISITOR, silent: true }), '')
    assert.equal(
      await attack('for at in ~ /tmp /var/tmp /dev/shm; do touch $at/x && echo $at; done', VISITOR),
      '/home/chat\n/tmp\n/var/tmp\n/dev/shm',
    )
    const found = await attack(
      'find / -xdev \\( -path /proc -o -path /tmp -o -path /dev \\) -prune -o -type d -writable -print',
      {
        ...VISITOR,
        silent: true,
      },
    )
    assert.equal(found, '/home/chat')
    assert.equal(readFileSync(join(host().home(), 'facts/a.md'), 'utf8'), 'a fact')
  })

  test('are shown beside instructions and facts of the workspace, but no traces of other conversations', async (t) => {
    const secret = 'of another visitor'
    const hidden = [
      ...[
        '.claude/projects/-home-node/1.jsonl',
        '.claude/settings.json',
        '.claude/history.jsonl',
        '.svc/sessions/1.json',
      ],
      ...['.bash_history', 'media/20260101/1-0-a.pdf', 'work.md', 'MEMORY.md', 'users/1.md', 'diary/2026-01-01.md'],
      ...[
        'episodes/1.md',
        'logs/turns/1.log',
        'credentials/key',
        'id_rsa',
        'child/facts/x',
        'gone/.claude/CLAUDE.md',
        'gone/x',
      ],
    ]
    const shown = [
      ...['PERSONA.md', 'CLAUDE.md', 'facts/a.md', 'public/form.pdf', 'tool.sh', '.claude/CLAUDE.md'],
      ...['.claude/skills/triage/SKILL.md', '.claude/commands/x.md', 'share/x'],
    ]
    const { attack, home } = host()
    writeFiles(
      user,
      host(),
      Object.fromEntries([...hidden.map((path) => [path, secret]), ...shown.map((path) => [path, `text of ${path}`])]),
    )
    t.after(() => {
      for (const name of ['gone', 'credentials']) rmSync(join(home(), name), { recursive: true })
    })
    assert.equal(await attack(`cat ${shown.join(' ')}`, VISITOR), shown.map((path) => `text of ${path}`).join(''))
    const every = hidden.map((path) => `cat ${path}`).join('; ')
    assert.equal(await attack(`${every}; grep -r "${secret}" /home`, { ...VISITOR, silent: true }), '')
    assert.equal(await attack('ls -A .claude', VISITOR), 'CLAUDE.md\ncommands\nskills')
    // Control: other runs of the folder see all files, and those of reach work all but sessions and other workspaces.
    const work = await attack(every, { ...VISITOR, reach: 'work', silent: true })
    assert.equal(work.split(secret).length - 1, hidden.length - 6)
    const all = await attack(`${every}; ls -A .claude`, { reach: 'all' })
    assert.equal(all.split(secret).length - 1, hidden.length)
  })

  test('programs of the workspace run, and its links give no access to hidden files', async (t) => {
    const { attack, home, root } = host()
    writeFiles(user, host(), {
      'work.md': 'at work',
      'facts/a.md': 'a fact',
      'agent.sh': '#!/bin/sh\necho ran in $PWD\n',
    })
    const links: Record<string, string> = {
      'to-fact': 'facts/a.md',
      'to-work': 'work.md',
      'facts/to-work': '../work.md',
      'to-client': '.claude',
      'to-data': root,
      'to-child': join(home(), 'child'),
      'to-shadow': '/etc/shadow',
      dangling: 'nowhere',
    }
    for (const [name, target] of Object.entries(links)) {
      symlinkSync(target, join(home(), name))
      t.after(() => rmSync(join(home(), name)))
    }
    assert.equal(await attack('cat to-fact', VISITOR), 'a fact')
    const reading =
      'cat to-work facts/to-work to-shadow dangling; ls to-data/ to-child/; ls -A to-client/ | grep -v -e CLAUDE -e skills -e commands'
    assert.equal(await attack(`${reading}; true`, { ...VISITOR, silent: true }), '')
    assert.equal(await attack(['./agent.sh'], VISITOR), 'ran in /home/node')
  })

  test('devices, sockets and FIFOs at the top of the workspace are hidden and do not prevent the start', async (t) => {
    const { attack, home } = host()
    assert.equal(spawnSync('mkfifo', ['-m', '666', join(home(), 'fifo')]).status, 0)
    t.after(() => rmSync(join(home(), 'fifo')))
    await attack(
      perl(`use Socket; socket my $s, AF_UNIX, SOCK_STREAM, 0; bind $s, pack_sockaddr_un 'a.sock' or die $!`),
      {
        reach: 'all',
      },
    )
    t.after(() => rmSync(join(home(), 'a.sock')))
    assert.equal(await attack('ls -d fifo a.sock; true', { ...VISITOR, silent: true }), '')
  })

  test('a file that only another user can read stays unreadable', async (t) => {
    const { attack, home } = host()
    if (user !== 'root') return
    writeFileSync(join(home(), 'operator.txt'), ENV_SECRET, { mode: 0o600 })
    t.after(() => rmSync(join(home(), 'operator.txt')))
    assert.equal(await attack('cat operator.txt', { ...VISITOR, silent: true }), '')
  })

  test('a workspace with very many entries shows its instructions, and the run starts', async (t) => {
    const { attack, home } = host()
    const names = Array.from({ length: 400 }, (_, at) => `A${String(at).padStart(3, '0')}`)
    writeFiles(user, host(), {
      'facts/a.md': 'a fact',
      'PERSONA.md': 'who',
      ...Object.fromEntries(names.map((name) => [name, name])),
    })
    t.after(() => {
      for (const name of names) rmSync(join(home(), name))
    })
    const [facts, count = ''] = (await attack('cat facts/a.md; echo; ls A* | wc -l', VISITOR)).split('\n')
    assert.equal(facts, 'a fact')
    assert.ok(Number(count) > 200 && Number(count) < 256, count)
  })

  test('the descriptors of mounted files are not open in the run', async () => {
    const list = `print join ' ', grep { -e "/proc/self/fd/$_" } 0 .. 511`
    assert.equal(await host().attack(['/usr/bin/perl', '-e', list], VISITOR), '0 1 2')
  })
})

/** Perl that exchanges visible with hidden entries until a file `stop` exists and prints the count; opens `gate` when running. */
const EXCHANGING = `
  my @pairs = (['facts', 'trap'], ['facts', 'media'], ['note.txt', 'work.md'], ['.claude/skills', '.claude/projects'], ['public', 'child']);
  my $count = 0;
  until ($count >= ${EXCHANGES_MIN} && $count % 1000 == 0 && -e 'stop') {
    for my $pair (@pairs, reverse @pairs) {
      my ($a, $b) = @$pair;
      syscall(${numberOf('renameat2')}, ${AT_FDCWD}, $a, ${AT_FDCWD}, $b, ${RENAME_EXCHANGE}) == 0 or die "exchange: $!";
      if (++$count == 1000) { open my $gate, '<', 'gate'; <$gate> }
    }
  }
  print $count`

forEachUser('a workspace whose entries are exchanged during visitor runs', [], (user) => {
  const host = attackHost(user)

  test(`shows nothing outside of itself and is not written in ${STARTS} starts`, async () => {
    const { attack, home, root } = host()
    writeFiles(user, host(), {
      ...{
        'facts/x': 'shown',
        'media/x': 'exchanged',
        'note.txt': 'shown',
        'work.md': 'exchanged',
        'public/x': 'shown',
      },
      ...{ '.claude/skills/x': 'shown', '.claude/projects/x': 'exchanged', 'child/x': 'exchanged' },
    })
    symlinkSync(root, join(home(), 'trap'))
    const gate = openFifoGate(join(home(), 'gate'))
    const exchanging = attack(perl(EXCHANGING), { reach: 'all' })
    await Promise.race([gate.reached(), exchanging])
    await gate.open()
    const seen = new Map<string, number>()
    for (let start = 0; start < STARTS; start++) {
      const script = `cat facts/.env facts/groups/other/secret /home/node/*/.env /home/node/*/groups/other/secret .env 2>/dev/null
        for at in . facts public .claude .claude/skills; do touch $at/written 2>/dev/null && echo wrote $at; done
        touch ~/x && echo home`
      const outcome = await attack(['/bin/sh', '-c', script], VISITOR).catch((error) => {
        assert.ok(error instanceof FailedAttack, String(error))
        return error.message
      })
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
    }
    writeFileSync(join(home(), 'stop'), '')
    assert.ok(Number(await exchanging) >= EXCHANGES_MIN)
    const others = [...seen.keys()].filter((outcome) => !outcome.startsWith('its cell could not be set up'))
    assert.deepEqual(others, ['home'])
    const written = spawnSync('find', ['-P', root, '-name', 'written'], { encoding: 'utf8' }).stdout
    assert.equal(written, '')
  })
})

forEachUser('a visitor of a chat link', [], (user) => {
  const endings: (() => void | Promise<void>)[] = []
  let instance: AttackInstance
  let served: ServedInstance
  before(async () => {
    instance = await attackInstance({ after: (work) => void endings.unshift(work) }, user)
    for (const key of ['GITHUB_TOKEN', 'ANTHROPIC_API_KEY'])
      await instance.svc('secret', 'demo', 'set', 'team', key, '--value', 'secret-of-team')
    served = await instance.serve()
  })
  after(async () => {
    await served?.stop()
    for (const work of endings) await work()
  })

  const ENVIRONMENT = 'env | grep secret-of-team | cut -d= -f1 | sort; echo $HOME'

  test('gets turns without secrets and with separate files', async () => {
    const { askAsVisitor, ask } = served
    assert.equal((await askAsVisitor('team', ENVIRONMENT)).text, 'ANTHROPIC_API_KEY\n/home/chat')
    assert.equal((await ask('team', ENVIRONMENT)).text, 'ANTHROPIC_API_KEY\nGITHUB_TOKEN\n/home/node')
    assert.equal(
      (await askAsVisitor('team', 'echo mine > ~/note; touch x 2>/dev/null || echo read-only')).text,
      'read-only',
    )
    assert.equal(
      (await askAsVisitor('team', 'cat ~/note; ls -d child 2>/dev/null || echo hidden', 'other topic')).text,
      'mine\nhidden',
    )
    assert.equal((await ask('team', 'ls -d ~/note /home/chat 2>/dev/null; ls -d child')).text, 'child')
    assert.equal((await askAsVisitor('other', 'ls -A ~; echo nothing')).text, 'nothing')
  })

  test('a webhook gets turns with secrets that write only the work paths', async () => {
    const { askAtWork, ask } = served
    assert.equal((await askAtWork('team', ENVIRONMENT)).text, 'ANTHROPIC_API_KEY\nGITHUB_TOKEN\n/home/chat')
    const asked = 'ls -d child 2>/dev/null; touch x 2>/dev/null || echo read-only; touch data/x && echo written'
    assert.equal((await askAtWork('team', asked)).text, 'read-only\nwritten')
    assert.equal((await ask('team', 'ls data')).text, 'x')
  })
})
