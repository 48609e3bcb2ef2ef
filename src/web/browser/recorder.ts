// Records a voice message, which then is a file of the message like any other.
import { iconNode } from './icons.ts'
import { element, iconButton } from './nodes.ts'
import { uiText } from './texts.ts'
import type { ChatView } from './view.ts'

interface RecorderHandlers {
  onRecorded(file: File): void
  /** Called with a sentence. */
  onProblem(problem: string): void
  /** Called when the composer is back and has no focus. */
  onEnd(): void
  /** Bytes that the message has room for. */
  room(): number
}

/** Types that browsers record, the preferred one first. */
const TYPES = ['audio/webm;codecs=opus', 'audio/mp4', 'audio/ogg;codecs=opus']
const BITS_PER_SECOND = 32_000
const RECORDING_MAX_MS = 10 * 60_000
/** A shorter recording would be of no use. */
const RECORDING_MIN_MS = 10_000

/** One recording: the microphone, and how far it is. */
interface Recording {
  readonly recorder: MediaRecorder
  readonly stream: MediaStream
  readonly chunks: Blob[]
  /** Bytes. */
  readonly max: number
  readonly timer: ReturnType<typeof setInterval>
  isCancelled: boolean
}

/** Browsers record only on pages over HTTPS or of this machine. */
export function canRecord(): boolean {
  return typeof navigator.mediaDevices?.getUserMedia === 'function' && typeof MediaRecorder === 'function'
}

export class VoiceRecorder {
  readonly #box: HTMLElement
  readonly #handlers: RecorderHandlers
  readonly #button = iconButton(uiText('record'), iconNode('microphone'), 'icon mic')
  readonly #clock = element('span', { role: 'timer', 'aria-label': uiText('recordingLength') })
  readonly #bar = element('div', { class: 'recorder', hidden: '' })
  #recording: Recording | undefined
  /** While the browser asks for permission. */
  #isStarting = false

  constructor({ box, send }: ChatView, handlers: RecorderHandlers) {
    this.#box = box
    this.#handlers = handlers
    const cancel = iconButton(uiText('discardRecording'), iconNode('close'))
    const stop = iconButton(uiText('finishRecording'), iconNode('check'), 'finish')
    const label = element('span', { role: 'status' }, uiText('recording'))
    this.#bar.append(cancel, element('span', { class: 'live', 'aria-hidden': 'true' }), label, this.#clock, stop)
    this.#button.addEventListener('click', () => void this.#start(stop))
    cancel.addEventListener('click', () => this.#end(true))
    stop.addEventListener('click', () => this.stop())
    send.before(this.#button)
    box.append(this.#bar)
  }

  get isRecording(): boolean {
    return this.#recording !== undefined
  }

  /** Ends a recording and keeps it. */
  stop(): void {
    this.#end(false)
  }

  /** The link accepts no more messages. */
  close(): void {
    this.#end(true)
    this.#button.disabled = true
  }

  async #start(stop: HTMLElement): Promise<void> {
    const max = this.#handlers.room()
    if (max < bytesOf(RECORDING_MIN_MS)) {
      this.#handlers.onProblem(uiText('noRoom'))
      return
    }
    if (this.#isStarting) return
    this.#isStarting = true
    let stream: MediaStream | undefined
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: true })
      // The panel or the link may have been closed meanwhile.
      if (this.#button.disabled || this.#box.getClientRects().length === 0) endTracks(stream)
      else {
        this.#record(stream, max)
        stop.focus()
      }
    } catch (error) {
      if (stream) endTracks(stream)
      this.#handlers.onProblem(describeMicrophoneProblem(error))
    } finally {
      this.#isStarting = false
    }
  }

  #record(stream: MediaStream, max: number): void {
    const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type))
    const options = { audioBitsPerSecond: BITS_PER_SECOND, ...(mimeType ? { mimeType } : {}) }
    const recorder = new MediaRecorder(stream, options)
    recorder.start(1_000)
    const started = performance.now()
    const maxMs = Math.min(RECORDING_MAX_MS, (max / bytesOf(1_000)) * 1_000)
    const showTime = (): void => {
      const elapsed = performance.now() - started
      this.#clock.textContent = `${formatClock(elapsed)} / ${formatClock(maxMs)}`
      if (elapsed >= maxMs) this.#endTooLong()
    }
    const timer = setInterval(showTime, 250)
    const recording: Recording = { recorder, stream, chunks: [], max, timer, isCancelled: false }
    recorder.addEventListener('dataavailable', ({ data }) => this.#keep(recording, data))
    recorder.addEventListener('stop', () => this.#finish(recording))
    this.#recording = recording
    this.#setRecording(true)
    showTime()
  }

  #keep({ chunks, max }: Recording, data: Blob): void {
    const size = chunks.reduce((sum, chunk) => sum + chunk.size, data.size)
    if (size > max) this.#endTooLong()
    else chunks.push(data)
  }

  #endTooLong(): void {
    if (this.#end(false)) this.#handlers.onProblem(uiText('recordingTooLong'))
  }

  /** Whether there was a recording. */
  #end(isCancelled: boolean): boolean {
    if (!this.#recording || this.#recording.recorder.state === 'inactive') return false
    this.#recording.isCancelled = isCancelled
    this.#recording.recorder.stop()
    return true
  }

  #finish({ recorder, stream, chunks, timer, isCancelled }: Recording): void {
    clearInterval(timer)
    endTracks(stream)
    this.#recording = undefined
    const hadFocus = this.#bar.matches(':focus-within')
    this.#setRecording(false)
    if (!isCancelled && chunks.some(({ size }) => size > 0))
      this.#handlers.onRecorded(voiceFile(chunks, recorder.mimeType))
    if (!hadFocus) return
    // On a phone the keyboard would cover the recording.
    if (matchMedia('(hover: hover)').matches) this.#handlers.onEnd()
    else this.#button.focus()
  }

  #setRecording(isRecording: boolean): void {
    this.#box.classList.toggle('recording', isRecording)
    this.#bar.hidden = !isRecording
  }
}

/** The browser shows that the microphone is on until then. */
function endTracks(stream: MediaStream): void {
  for (const track of stream.getTracks()) track.stop()
}

function bytesOf(milliseconds: number): number {
  return (milliseconds / 1_000) * (BITS_PER_SECOND / 8)
}

function voiceFile(chunks: readonly Blob[], mimeType: string): File {
  const [type = ''] = mimeType.split(';')
  const extension = type === 'audio/mp4' ? 'm4a' : type.replace('audio/', '')
  const now = new Date()
  // In the time zone of the visitor.
  const local = new Date(now.getTime() - now.getTimezoneOffset() * 60_000).toISOString()
  const time = local.slice(0, 19).replace('T', ' ').replaceAll(':', '.')
  return new File([...chunks], `${uiText('voiceMessage', { time })}.${extension}`, { type })
}

function formatClock(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1_000)
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

function describeMicrophoneProblem(error: unknown): string {
  const name = error instanceof DOMException ? error.name : ''
  if (name === 'NotAllowedError') return uiText('microphoneForbidden')
  return uiText(name === 'NotFoundError' ? 'microphoneMissing' : 'microphoneFails')
}
