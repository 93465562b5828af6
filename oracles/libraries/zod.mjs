import { z } from 'zod';

const User = z.object({ id: z.number().int().positive(), email: z.string().email(), role: z.enum(['admin', 'user']).default('user'), tags: z.array(z.string().min(2)).max(3).optional(), born: z.coerce.date() }).strict();
const Shape = z.discriminatedUnion('kind', [z.object({ kind: z.literal('circle'), r: z.number() }), z.object({ kind: z.literal('rect'), w: z.number(), h: z.number() })]);
const results = [
  User.safeParse({ id: 1, email: 'a@b.co', born: '2000-01-02' }),
  User.safeParse({ id: -1.5, email: 'nope', tags: ['x', 'yy', 'zz', 'ww'], born: 'never', extra: 1 }),
  Shape.safeParse({ kind: 'rect', w: 2, h: 3 }),
  Shape.safeParse({ kind: 'tri' }),
  z.string().transform((s) => s.length).pipe(z.number().max(3)).safeParse('four'),
  z.record(z.string(), z.union([z.number(), z.boolean()])).safeParse({ a: 1, b: true, c: 'x' }),
  z.tuple([z.string(), z.number()]).rest(z.boolean()).safeParse(['a', 1, true, 0]),
  await z.string().refine(async (s) => s.startsWith('a'), 'must start with a').safeParseAsync('b'),
  z.lazy(() => z.array(z.number())).safeParse([1, 2]),
];
export default results.map((r) => (r.success ? { data: JSON.parse(JSON.stringify(r.data)) } : { issues: r.error.issues.map(({ code, path, message }) => ({ code, path, message })) }));
