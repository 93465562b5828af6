import * as R from 'ramda';

const people = [{ name: 'ann', age: 31, city: 'Rome' }, { name: 'bob', age: 25, city: 'Oslo' }, { name: 'cat', age: 31, city: 'Oslo' }];
export default [
  R.pipe(R.groupBy(R.prop('city')), R.map(R.pluck('name')))(people), R.sortWith([R.descend(R.prop('age')), R.ascend(R.prop('name'))])(people).map(R.prop('name')), R.path(['a', 0, 'b'], { a: [{ b: 5 }] }), R.assocPath(['a', 'b'], 1, { a: { c: 2 } }),
  R.over(R.lensProp('age'), R.inc, people[0]), R.view(R.lensPath([1, 'city']), people), R.evolve({ age: R.add(1), name: R.toUpper }, people[1]), R.zipWith(R.multiply, [1, 2, 3], [4, 5, 6]), R.transduce(R.compose(R.filter((x) => x % 2), R.map((x) => x * x)), R.add, 0, R.range(0, 10)),
  R.equals({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }), R.cond([[R.lt(R.__, 0), R.always('neg')], [R.equals(0), R.always('zero')], [R.T, R.always('pos')]])(5), R.curry((a, b, c) => a + b + c)(1)(R.__, 3)(2), R.aperture(2, [1, 2, 3, 4]), R.xprod([1, 2], ['a', 'b']), R.countBy(R.toLower, ['A', 'a', 'b']), R.mergeDeepRight({ a: { x: 1 } }, { a: { y: 2 } }), R.memoizeWith(String, (n) => n * 2)(4), R.unfold((n) => n > 5 ? false : [n, n + 1], 1),
];
