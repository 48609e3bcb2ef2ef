// Records a voice message, which then is a file of the message like any other.
import { element, iconButton, iconNode } from './nodes.ts'
import type { ChatView } from './view.ts'

interface RecorderHandlers {
  onRecorded(file: File): void
  /** Called with a sentence. */
  onProblem(problem: string): void
  /** Called when the composer is back. */
  onEnd(): void
}

/** Types that browsers record, the preferred one first. */
const TYPES = ['audio/webm;codecs=opus', 'audio/mp4', 'audio/ogg;codecs=opus']
const BITS_PER_SECOND = 32_000
const RECORDING_MAX_MS = 10 * 60_000

/** One recording: the microphone, and how far it is. */
interface Recording {
  readonly recorder: MediaRecorder
  readonly chunks: Blob[]
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
  /** Bytes. */
  readonly #max: number
  readonly #button = iconButton('Record a voice message', iconNode('microphone'), 'icon mic')
  readonly #clock = element('span', { role: 'timer', 'aria-label': 'Length of the recording' })
  readonly #bar = element('div', { class: 'recorder', hidden: '' })
  #recording: Recording | undefined
  /** Counts ends, so that a microphone which is allowed too late stays off. */
  #ends = 0
  #isClosed = false

  constructor({ box, send }: ChatView, max: number, handlers: RecorderHandlers) {
    this.#box = box
    this.#max = max
    this.#handlers = handlers
    const cancel = iconButton('Discard the recording', iconNode('close'))
    const stop = iconButton('Finish the recording', iconNode('check'), 'finish')
    const label = element('span', { role: 'status' }, 'Recording')
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
    this.#isClosed = true
    this.#button.disabled = true
  }

  async #start(stop: HTMLElement): Promise<void> {
    this.#button.disabled = true
    const ends = this.#ends
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true })
      if (ends !== this.#ends) {
        closeMicrophone(stream)
        return
      }
      this.#record(stream)
      stop.focus()
    } catch (error) {
      this.#handlers.onProblem(describeMicrophoneProblem(error))
    } finally {
      this.#button.disabled = this.#isClosed
    }
  }

  #record(stream: MediaStream): void {
    const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type))
    const options = { audioBitsPerSecond: BITS_PER_SECOND, ...(mimeType ? { mimeType } : {}) }
    const recorder = new MediaRecorder(stream, options)
    const started = performance.now()
    const showTime = (): void => {
      const elapsed = performance.now() - started
      this.#clock.textContent = formatClock(elapsed)
      if (elapsed >= RECORDING_MAX_MS) this.stop()
    }
    const recording: Recording = { recorder, chunks: [], timer: setInterval(showTime, 250), isCancelled: false }
    recorder.addEventListener('dataavailable', ({ data }) => this.#keep(recording, data))
    recorder.addEventListener('stop', () => this.#finish(recording, stream))
    this.#recording = recording
    this.#setRecording(true)
    showTime()
    recorder.start(1_000)
  }

  #keep({ chunks }: Recording, data: Blob): void {
    const size = chunks.reduce((sum, chunk) => sum + chunk.size, data.size)
    if (size > this.#max) this.stop()
    else chunks.push(data)
  }

  #end(isCancelled: boolean): void {
    this.#ends++
    if (!this.#recording || this.#recording.recorder.state === 'inactive') return
    this.#recording.isCancelled = isCancelled
    this.#recording.recorder.stop()
  }

  #finish({ recorder, chunks, timer, isCancelled }: Recording, stream: MediaStream): void {
    clearInterval(timer)
    closeMicrophone(stream)
    this.#recording = undefined
    this.#setRecording(false)
    if (!isCancelled && chunks.some(({ size }) => size > 0))
      this.#handlers.onRecorded(voiceFile(chunks, recorder.mimeType))
    this.#handlers.onEnd()
  }

  #setRecording(isRecording: boolean): void {
    this.#box.classList.toggle('recording', isRecording)
    this.#bar.hidden = !isRecording
  }
}

/** The browser shows that the microphone is on until then. */
function closeMicrophone(stream: MediaStream): void {
  for (const track of stream.getTracks()) track.stop()
}

function voiceFile(chunks: readonly Blob[], mimeType: string): File {
  const [type = ''] = mimeType.split(';')
  const extension = type === 'audio/mp4' ? 'm4a' : type.replace('audio/', '')
  const now = new Date()
  // In the time zone of the visitor.
  const local = new Date(now.getTime() - now.getTimezoneOffset() * 60_000).toISOString()
  const time = local.slice(0, 19).replace('T', ' ').replaceAll(':', '.')
  return new File([...chunks], `Voice message ${time}.${extension}`, { type })
}

function formatClock(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1_000)
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

function describeMicrophoneProblem(error: unknown): string {
  const name = error instanceof DOMException ? error.name : ''
  if (name === 'NotAllowedError')
    return 'Your browser does not allow this page to use the microphone. Allow it and try again.'
  if (name === 'NotFoundError') return 'No microphone was found.'
  return 'The microphone cannot be used now.'
}
