// An answer that is shown while the agent writes it: real processes, a program that prints step by step, a browser like that of
// a phone, and a terminal.
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { agentDir, giveToAgents } from '../support/agent-files.ts'
import { visitor } from '../support/browser.ts'
import { type LinkedInstance, openLinkedInstance, type ServedLinks } from '../support/linked-instance.ts'
import { needs } from '../support/needs.ts'
import { processOf } from '../support/svc-processes.ts'
import { svcOnTerminal } from '../support/terminal.ts'
import { until } from '../support/until.ts'

const PHONE = { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true }
const STEPS = 4
const LINES = 20

const linesUpTo = (step: number): string[] => Array.from({ length: step * LINES }, (_, at) => `line ${at + 1}`)

interface Writer {
  readonly instance: LinkedInstance
  readonly served: ServedLinks
  readonly chat: string
  /** Lets the answer to a message of one word go on behind its steps up to this one. */
  goOn(word: string, step: number): void
}

/** An agent that writes 20 lines in each step, and then waits. */
async function openWriter(t: TestContext): Promise<Writer> {
  const steps = agentDir(t)
  const program = `n=0
    for step in $(seq ${STEPS}); do
      for _ in $(seq ${LINES}); do n=$((n + 1)); echo "- line $n"; sleep 0.01; done
      until [ -e "${steps}/$SVC_TEXT/$step" ]; do sleep 0.02; done
    done`
  const settings = { AGENT_RUNTIME: 'command', AGENT_COMMAND: program, SANDBOX_PATHS: steps }
  const instance = await openLinkedInstance(t, 'sqlite', settings)
  const link = await instance.mintChat()
  const served = await instance.start()
  const goOn = (word: string, step: number): void => {
    const directory = join(steps, word)
    mkdirSync(directory, { recursive: true })
    for (let at = 1; at <= step; at++) writeFileSync(join(directory, `${at}`), '')
    giveToAgents(directory)
  }
  return { instance, served, chat: served.chat(link), goOn }
}

/** A picture of one pixel. */
const DOT = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

/** The message of the visitor shows it as loaded. */
async function waitForPicture(page: Page): Promise<void> {
  await page.waitForFunction(() => {
    const pictures = [...document.querySelectorAll<HTMLImageElement>('.message.user img')]
    return pictures.length === 1 && pictures.every(({ complete, naturalWidth }) => complete && naturalWidth === 1)
  })
}

async function say(page: Page, text: string): Promise<void> {
  await page.locator('.composer textarea').fill(text)
  await page.locator('.composer textarea').press('Enter')
}

/** Records each text that the page shows as the answer, and how far the reader is from the end of the log. */
function record(page: Page): Promise<void> {
  return page.evaluate(() => {
    const [log, shown] = [document.querySelector('.log'), [] as string[]]
    Reflect.set(globalThis, 'shown', shown)
    if (!log) throw new Error('no log')
    const look = (): void => {
      const answer = [...document.querySelectorAll('.message.agent .prose')].at(-1)
      const text = [...(answer?.querySelectorAll('li') ?? [])].map((line) => line.textContent).join('\n')
      if (text !== shown.at(-1)) shown.push(text)
    }
    new MutationObserver(look).observe(log, { childList: true, subtree: true, characterData: true })
  })
}

/** Fails if a text that the page has shown is not the start of the answer, or not longer than the text before. */
async function checkShown(page: Page): Promise<void> {
  const shown = await page.evaluate(() => Reflect.get(globalThis, 'shown') as string[])
  const answer = linesUpTo(STEPS).join('\n')
  assert.ok(shown.length > 2, `${shown.length}`)
  let before = ''
  for (const text of shown) {
    assert.ok(answer.startsWith(text) && text.startsWith(before), JSON.stringify([before, text]))
    before = text
  }
}

const lines = (page: Page): Promise<string[]> =>
  page
    .locator('.message.agent')
    .last()
    .locator('li')
    .evaluateAll((nodes) => nodes.map((node) => node.textContent ?? ''))

async function waitForLine(page: Page, number: number): Promise<void> {
  await page.locator('.message.agent').last().getByText(`line ${number}`, { exact: true }).waitFor()
}

test('a phone holds a conversation with a picture, a lost connection, a reload, an edit and a stop, with no gap, repeat or jump', {
  ...needs('browser', 'open checkout'),
}, async (t) => {
  const { chat, goOn } = await openWriter(t)
  const who = await visitor(t, PHONE)
  const page = await who.open(chat)
  await record(page)
  await page
    .locator('input[type=file][multiple]')
    .setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: DOT })
  await say(page, 'one')
  await waitForLine(page, LINES)
  assert.equal(await page.locator('.draft').count(), 1)
  assert.deepEqual(await lines(page), linesUpTo(1))

  await who.context.setOffline(true)
  await page.locator('.notice', { hasText: 'offline' }).waitFor()
  goOn('one', 1)
  await who.context.setOffline(false)
  await waitForLine(page, 2 * LINES)
  assert.deepEqual(await lines(page), linesUpTo(2))
  await checkShown(page)

  await page.reload()
  await waitForLine(page, 2 * LINES)
  assert.equal(await page.locator('.draft').count(), 1)
  await waitForPicture(page)
  await record(page)
  goOn('one', 2)
  await waitForLine(page, 3 * LINES)
  const atEnd = await page.locator('.log').evaluate((log) => log.scrollHeight - log.clientHeight - log.scrollTop)
  assert.ok(atEnd < 2, `${atEnd} px behind the end`)
  // A reader who has scrolled up stays there while the text grows and when the message replaces it.
  const first = page.getByText('line 7', { exact: true })
  await page.locator('.log').evaluate((log) => {
    log.scrollTop = 200
  })
  const top = (): Promise<number> => first.evaluate((node) => node.getBoundingClientRect().top)
  const topBefore = await top()
  goOn('one', STEPS)
  await page.locator('.status').waitFor({ state: 'detached' })
  assert.equal(await page.locator('.draft').count(), 0)
  assert.equal(await page.locator('.message.agent').count(), 1)
  assert.deepEqual(await lines(page), linesUpTo(STEPS))
  assert.equal(await top(), topBefore)
  await checkShown(page)

  // Edited, the message has its picture again, and another answer, which is stopped; the first one is still there.
  await page.getByRole('button', { name: 'Edit' }).click()
  await page.getByLabel('Edit your message').fill('six')
  await page.getByLabel('Edit your message').press('Enter')
  await page.locator('.draft').getByText(`line ${LINES}`, { exact: true }).waitFor()
  await waitForPicture(page)
  await page.keyboard.press('Escape')
  await page.locator('.message.agent .foot', { hasText: 'Stopped' }).waitFor()
  assert.deepEqual(await lines(page), linesUpTo(1))
  await page.getByRole('button', { name: 'Previous version' }).click()
  await page.locator('.message.user', { hasText: 'one' }).waitFor()
  await waitForLine(page, LINES)
  await waitForPicture(page)
  assert.equal(await page.locator('.message.agent .foot', { hasText: 'Stopped' }).count(), 0)
  assert.deepEqual((await lines(page)).slice(0, LINES), linesUpTo(1))
})

test('a page whose runner is killed says that the answer broke off, and then shows that of the next try', {
  ...needs('browser', 'open checkout'),
}, async (t) => {
  const { chat, goOn, served } = await openWriter(t)
  const page = await (await visitor(t, PHONE)).open(chat)
  await say(page, 'two')
  await waitForLine(page, LINES)
  process.kill(await processOf(served.child.pid ?? 0, 'runner'), 'SIGKILL')
  await page.locator('.status', { hasText: 'broke off' }).waitFor()
  await waitForLine(page, LINES)
  goOn('two', STEPS)
  await page.locator('.status').waitFor({ state: 'detached' })
  assert.equal(await page.locator('.message.agent').count(), 1)
  assert.deepEqual(await lines(page), linesUpTo(STEPS))
  assert.equal(await page.locator('.fault').count(), 0)
})

test('a visitor stops an answer with Escape or the button, and what was written stays', {
  ...needs('browser', 'open checkout'),
}, async (t) => {
  const { chat } = await openWriter(t)
  const page = await (await visitor(t, PHONE)).open(chat)
  const stopped = page.locator('.message.agent .foot', { hasText: 'Stopped' })
  for (const [count, word] of ['four', 'five'].entries()) {
    await say(page, word)
    await page.locator('.draft').getByText(`line ${LINES}`, { exact: true }).waitFor()
    if (count === 0) await page.keyboard.press('Escape')
    else await page.getByRole('button', { name: 'Stop the answer' }).click()
    await stopped.nth(count).waitFor()
    await page.locator('.status').waitFor({ state: 'detached' })
    assert.deepEqual(await lines(page), linesUpTo(1))
  }
  await page.reload()
  await stopped.nth(1).waitFor()
  await page.locator('.status').waitFor({ state: 'detached' })
  assert.equal(await page.locator('.message.agent').count(), 2)
  assert.equal(await page.locator('.fault, .note').count(), 0)
})

test('a terminal shows an answer as it is written, once', needs('script', 'open checkout'), async (t) => {
  const { instance, goOn } = await openWriter(t)
  const { screen, code } = svcOnTerminal(t, instance.root, 'send demo main three --stream')
  const asWritten = (step: number): string =>
    linesUpTo(step)
      .map((line) => `- ${line}`)
      .join('\r\n')
  for (let step = 1; step <= STEPS; step++) {
    await until(() => screen().includes(`line ${step * LINES}`))
    assert.ok(screen().trimEnd().endsWith(asWritten(step)), screen())
    goOn('three', step)
  }
  assert.equal(await code, 0)
  assert.equal(screen().split('- line 1\r\n').length, 2)
})
