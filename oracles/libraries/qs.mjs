// script
import { parse, stringify } from 'qs';

export default { parsed: parse('a[b][]=1&a[b][]=2&c=%C3%A9&d.e=x', { allowDots: true }), text: stringify({ a: { b: [1, 2] }, c: 'é &', d: null, e: undefined }), brackets: stringify({ a: [1, 2] }, { arrayFormat: 'brackets', encode: false }) };
