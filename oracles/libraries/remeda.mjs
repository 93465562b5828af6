import * as R from 'remeda';

const rows = [{ id: 1, g: 'x', n: 5 }, { id: 2, g: 'y', n: 3 }, { id: 3, g: 'x', n: 9 }];
export default [R.pipe(rows, R.groupBy((r) => r.g), R.mapValues((xs) => R.sumBy(xs, (r) => r.n))), R.pipe(rows, R.sortBy([(r) => r.n, 'desc']), R.map(R.prop('id')), R.take(2)), R.chunk([1, 2, 3, 4, 5], 2), R.pipe([1, 2, 2, 3], R.unique(), R.filter((x) => x > 1)), R.mergeDeep({ a: { b: 1 } }, { a: { c: 2 } }), R.partition([1, 2, 3, 4], (x) => x % 2 === 0), R.setPath({ a: { b: [1, 2] } }, ['a', 'b', 1], 9), R.zip([1, 2], ['a', 'b']), R.toKebabCase('helloWorld FooBar'), R.omit({ a: 1, b: 2 }, ['a']), R.isDeepEqual({ a: [1] }, { a: [1] }), R.range(1, 4), R.stringToPath('a[0].b')];
