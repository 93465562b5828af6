import Ajv from 'ajv';

const ajv = new Ajv();
export default ajv.validate({ type: 'object', properties: { a: { type: 'integer' } } }, { a: 1 });
