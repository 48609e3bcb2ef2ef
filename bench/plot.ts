// Plots as SVG: stacked panels of lines over one common axis.
export interface Panel {
  readonly title: string
  readonly lines: readonly Line[]
}

export interface Line {
  /** Shown in the legend. */
  readonly name: string
  readonly points: readonly (readonly [x: number, y: number])[]
}

const [WIDTH, HEIGHT, LEFT, TOP, GAP] = [760, 110, 70, 40, 45]
const COLORS = ['#1f5fa8', '#c2571a', '#3b7d3b']

export function plot(title: string, axis: string, panels: readonly Panel[]): string {
  const xs = panels.flatMap(({ lines }) => lines.flatMap(({ points }) => points.map(([x]) => x)))
  const right = Math.max(...xs, Number.MIN_VALUE)
  const height = TOP + panels.length * (HEIGHT + GAP) + 20
  const drawn = panels.map((panel, at) => drawPanel(panel, { top: TOP + at * (HEIGHT + GAP) + 20, right }))
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH + LEFT + 60}" height="${height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
<text x="${LEFT}" y="24" font-size="15">${escaped(title)}</text>
${drawn.join('\n')}
<text x="${LEFT + WIDTH}" y="${height - 8}" text-anchor="end">${escaped(axis)}</text>
</svg>
`
}

function drawPanel({ title, lines }: Panel, { top, right }: { readonly top: number; readonly right: number }): string {
  const highest = roundUp(Math.max(...lines.flatMap(({ points }) => points.map(([, y]) => y)), Number.MIN_VALUE))
  const place = ([x, y]: readonly [number, number]): string =>
    `${(LEFT + (x / right) * WIDTH).toFixed(1)},${(top + HEIGHT - (y / highest) * HEIGHT).toFixed(1)}`
  const grid = [0, 0.5, 1].map((part) => {
    const y = top + HEIGHT * (1 - part)
    return `<path d="M${LEFT} ${y}h${WIDTH}" stroke="#ddd"/><text x="${LEFT - 6}" y="${y + 4}" text-anchor="end">${label(highest * part)}</text>`
  })
  const marks = [0, 0.25, 0.5, 0.75, 1].map(
    (part) =>
      `<text x="${LEFT + WIDTH * part}" y="${top + HEIGHT + 15}" text-anchor="middle">${label(right * part)}</text>`,
  )
  const drawn = lines.map(({ name, points }, at) => {
    const color = COLORS[at % COLORS.length]
    const legend = `<text x="${LEFT + WIDTH - 50 * at}" y="${top - 6}" text-anchor="end" fill="${color}">${escaped(name)}</text>`
    return `<polyline fill="none" stroke="${color}" stroke-width="1.5" points="${points.map(place).join(' ')}"/>${legend}`
  })
  return `<text x="${LEFT}" y="${top - 6}">${escaped(title)}</text>${[...grid, ...marks, ...drawn].join('')}`
}

/** The next of 1, 2 and 5 times a power of ten. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power
}

const label = (value: number): string => Number(value.toPrecision(3)).toLocaleString('en')

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
