// Formats amounts of money.

export function formatCents(cents: number): string {
  return `${cents} ${cents === 1 ? 'cent' : 'cents'}`
}
