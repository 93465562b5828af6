import { JSONPath } from 'jsonpath-plus';

const json = { store: { book: [{ title: 'A', price: 8 }, { title: 'B', price: 12, isbn: '1' }, { title: 'C', price: 9 }], bicycle: { price: 20 } } };
const q = (path, more = {}) => JSONPath({ path, json, ...more });
export default [q('$.store.book[*].title'), q('$..price'), q('$..book[-1:]'), q('$..book[0,1].title'), q('$.store.*', { resultType: 'path' }), q('$..book[?(@.isbn)].title', { eval: 'safe' }), q('$..book[?(@.price < 10)].title', { eval: 'safe' }), q('$.store.book[0]^', { wrap: false }).length, JSONPath.toPathArray('$.a[0].b')];
