export interface Invoice {
  id: string;
  currency: string;
  due: Date;
  lines: { cents: bigint; count: number }[];
}

/** What an invoice comes to, in cents of our own currency. */
export function total(invoice: Invoice, rate: number): bigint {
  const cents = invoice.lines.reduce((sum, line) => sum + line.cents * BigInt(line.count), 0n);
  return (cents * BigInt(Math.round(rate * 10_000))) / 10_000n;
}
