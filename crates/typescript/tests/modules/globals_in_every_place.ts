typeof input;
const a = { input, console: 1, [getMessage]: getMessage };
input = 1;
input++;
({ input } = a);
console.input;
class B extends console { input = 1; #input; }
label: for (input of a) break label;
`${console}`;
input?.a;
