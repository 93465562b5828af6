// script
import { Decoder, Encoder, decode, encode } from '@msgpack/msgpack';

const value = { id: 7, name: 'Käse 😀', tags: ['a', 'b', null], nested: { price: 1.5, big: 2 ** 40, bytes: new Uint8Array([1, 2, 3]) }, long: 'é'.repeat(300) };
const bytes = encode(value);
const copy = decode(bytes);
export default { length: bytes.length, head: [...bytes.slice(0, 40)], same: JSON.stringify(copy) === JSON.stringify(value), bytes: [...copy.nested.bytes], sorted: [...new Encoder({ sortKeys: true }).encode({ b: 1, a: 'ü' })], many: [...new Decoder().decodeMulti(new Uint8Array([1, 161, 97]))] };
