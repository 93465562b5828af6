import { NIL, parse, stringify, v1, v3, v5, v7, validate, version } from 'uuid';

const random = Uint8Array.from({ length: 16 }, (_, i) => i * 16 + 3);
const id = v5('execbox', v5.URL);
export default [id, v3('execbox', v3.DNS), version(id), validate(id), validate('x'), stringify(parse(id)) === id, NIL, v1({ node: [1, 2, 3, 4, 5, 6], clockseq: 0x1234, msecs: 1_700_000_000_000, nsecs: 5678, random }), v7({ msecs: 1_700_000_000_000, seq: 42, random })];
