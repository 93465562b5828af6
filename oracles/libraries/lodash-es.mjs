import { chunk, cloneDeep, debounce, get, groupBy, isEqual, kebabCase, mapValues, merge, orderBy, set, sumBy, template as _template, uniqBy, zipObject, camelCase, difference, flow, curry, range, startCase, truncate, words } from 'lodash-es';

const rows = range(20).map((id) => ({ id, team: ['red', 'blue', 'green'][id % 3], score: (id * 37) % 11, tags: { a: [id, { deep: id % 4 }] } }));
const copy = cloneDeep(rows);
set(copy, '[3].tags.a[1].deep', 'changed');
export default {
  groups: mapValues(groupBy(rows, 'team'), (xs) => sumBy(xs, 'score')),
  ordered: orderBy(rows, ['score', 'id'], ['desc', 'asc']).map((x) => x.id),
  chunks: chunk(range(7), 3),
  deep: [get(copy, '[3].tags.a[1].deep'), get(rows, '[3].tags.a[1].deep'), get(rows, 'x.y', 'none'), isEqual(copy, rows), isEqual(cloneDeep(rows), rows)],
  merged: merge({ a: [{ b: 1 }], c: { d: 1 } }, { a: [{ e: 2 }], c: { f: [3] } }),
  text: [kebabCase('fooBar BAZ_qux'), camelCase('--foo-bar--'), startCase('fooBar'), truncate('a long text that ends', { length: 12 }), words('fred, barney, & pebbles')],
  unique: uniqBy(rows, 'team').map((x) => x.id),
  zipped: zipObject(['a', 'b'], [1, 2]),
  flow: flow([(x) => x + 1, (x) => x * 2])(3),
  curried: curry((a, b, c) => a + b + c)(1)(2, 3),
  rest: difference([1, 2, 3, 4], [2, 4]),
  types: [typeof debounce, typeof _template],
};
