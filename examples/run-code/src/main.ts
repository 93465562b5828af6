// What does each invoice come to, and what is outstanding?
// The modules beside this one can be imported; `rates` and `today` are given by the options, and nothing else is there.

import { rates } from "config";
import { total, type Invoice } from "./lib/invoice.ts";
import { days } from "./lib/time.js";

export default function outstanding(invoices: Invoice[]) {
  const late = new Map<string, number>();
  let sum = 0n;
  for (const invoice of invoices) {
    const cents = total(invoice, rates[invoice.currency]);
    const age = days(invoice.due, today);
    if (age > 0) {
      report({ late: invoice.id, days: age });
      late.set(invoice.id, age);
    }
    console.log(`${invoice.id}: ${cents} cents`);
    sum += cents;
  }
  return { sum, late, asOf: today };
}
