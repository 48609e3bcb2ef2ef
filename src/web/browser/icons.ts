// The icons of the chat.
import { lineIcon } from './nodes.ts'

const ICON_PATHS = {
  copy: [
    'M9 9V5a2 2 0 0 1 2-2h8a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2h-4',
    'M5 9h8a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2v-8a2 2 0 0 1 2-2z',
  ],
  send: ['M12 19V5', 'M6 11l6-6 6 6'],
  topics: ['M4 7h16', 'M4 12h16', 'M4 17h10'],
  plus: ['M12 5v14', 'M5 12h14'],
  close: ['M6 6l12 12', 'M18 6L6 18'],
  edit: ['M4 20l1-4L16 5l3 3L8 19z'],
  bin: ['M5 7h14', 'M10 7V4h4v3', 'M7 7l1 13h8l1-13'],
  previous: ['M14.5 6l-6 6 6 6'],
  next: ['M9.5 6l6 6-6 6'],
  system: ['M4 5h16a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V6a1 1 0 0 1 1-1z', 'M9 20h6', 'M12 16v4'],
  light: [
    'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z',
    'M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5',
  ],
  dark: ['M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z'],
  dashboard: ['M4 4h7v9H4z', 'M13 4h7v5h-7z', 'M13 12h7v8h-7z', 'M4 16h7v4H4z'],
  down: ['M12 5v14', 'M6 13l6 6 6-6'],
  clip: ['M20 11.5l-7.8 7.8a5 5 0 0 1-7.1-7.1l8.2-8.2a3.4 3.4 0 0 1 4.8 4.8l-8.2 8.1a1.7 1.7 0 0 1-2.4-2.4l7.3-7.2'],
  camera: [
    'M4 8h3l1.6-2.4h6.8L17 8h3a1.5 1.5 0 0 1 1.5 1.5V18a1.5 1.5 0 0 1-1.5 1.5H4A1.5 1.5 0 0 1 2.5 18V9.5A1.5 1.5 0 0 1 4 8z',
    'M12 10a3.5 3.5 0 1 0 0 7a3.5 3.5 0 1 0 0-7z',
  ],
  microphone: ['M12 3.5a3 3 0 0 1 3 3v5a3 3 0 0 1-6 0v-5a3 3 0 0 1 3-3z', 'M6 11.5a6 6 0 0 0 12 0', 'M12 17.5V21'],
  check: ['M5 12.5l5 5L19.5 7'],
  file: ['M14 3H7a1.5 1.5 0 0 0-1.5 1.5v15A1.5 1.5 0 0 0 7 21h10a1.5 1.5 0 0 0 1.5-1.5V7.5z', 'M14 3v4.5h4.5'],
  download: ['M12 4v11', 'M7 11l5 5 5-5', 'M5 20h14'],
} as const

export function iconNode(name: keyof typeof ICON_PATHS): SVGElement {
  return lineIcon(...ICON_PATHS[name])
}
