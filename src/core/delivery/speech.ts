// Interface of the speech synthesis service.

export interface SpeechAudio {
  /** Local path of the audio file, which exists for at least a week. */
  readonly path: string
  readonly mime: string
}

export interface SpeechSynthesizer {
  /** `voice` defaults to that of the instance. Throws a Refusal if the service does not answer. */
  synthesize(text: string, voice?: string): Promise<SpeechAudio>
}
