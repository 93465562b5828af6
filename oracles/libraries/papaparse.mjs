import Papa from 'papaparse';

const csv = 'id,name,note\n1,"Smith, J","said ""hi"""\n2,Ann,"two\nlines"\n3,,\n4,x,y,z\n';
export default { rows: Papa.parse(csv, { header: true, dynamicTyping: true, skipEmptyLines: true }), guessed: Papa.parse('a;b\n1;2', {}).meta.delimiter, stepped: (() => { const out = []; Papa.parse('1\n2\n3', { step: ({ data }) => out.push(data[0]) }); return out; })(), text: Papa.unparse([{ a: 1, b: 'x,y' }, { a: null, b: '"q"' }]), tsv: Papa.unparse([[1, 'a b'], [2, '']], { delimiter: '\t', quotes: true }), comments: Papa.parse('#c\n1,2', { comments: '#' }).data };
