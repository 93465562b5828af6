export const a = (input as unknown as string[])!.map((x) => x!.length satisfies number);
const b = <string>a[0], c = { d: 1 } as const;
(c as any).d = b as number;
