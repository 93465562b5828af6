import Handlebars from 'handlebars/dist/cjs/handlebars.js';

const ast = Handlebars.parse('{{#each rows}}{{name}}{{else}}none{{/each}}');
export default [ast.body.length, Handlebars.compile('{{#each rows}}{{name}}{{/each}}')({ rows: [{ name: 'a' }] })];
