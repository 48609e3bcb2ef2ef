// Formats values for messages of commands.

export function formatCents(cents: number): string {
  return `${cents} ${cents === 1 ? 'cent' : 'cents'}`
}
