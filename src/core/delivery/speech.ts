// The port to whoever speaks a text.

export interface SpeechAudio {
  /** Where the sound lies on this machine; it stays for a week at least. */
  readonly path: string
  readonly mime: string
}

export interface SpeechSynthesizer {
  /** Without a voice: the instance's own. A service that does not answer is a refusal. */
  synthesize(text: string, voice?: string): Promise<SpeechAudio>
}
