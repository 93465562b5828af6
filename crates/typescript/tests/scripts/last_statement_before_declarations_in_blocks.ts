for (;;) { 0; let x }
try {
  if (a) { 1 } else { 2; let y }
} catch { 3 }
let z
