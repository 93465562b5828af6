import { parse } from 'csv-parse/browser/esm/sync';

export default [parse('a,b\n1,"x ""y"""\n2,z\n', { columns: true, cast: true })];
