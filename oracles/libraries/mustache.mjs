import Mustache from 'mustache';

const view = { name: 'A & B', items: [{ n: 1, last: false }, { n: 2, last: true }], empty: [], up() { return (text, render) => render(text).toUpperCase(); }, nested: { deep: { v: '<x>' } }, price: () => 9.5 };
export default [Mustache.render('Hi {{name}} {{{name}}} {{&name}}{{! comment }} {{#items}}{{n}}{{^last}}, {{/last}}{{/items}}{{^empty}}none{{/empty}}', view), Mustache.render('{{#up}}x {{name}}{{/up}} {{nested.deep.v}} {{price}} {{missing}}', view), Mustache.render('{{>part}}\n  {{>part}}', view, { part: '[{{name}}]' }), Mustache.render('{{=<% %>=}}<% name %> {{name}}', view), Mustache.parse('a{{b}}{{#c}}d{{/c}}'), (() => { try { Mustache.render('{{#a}}', {}); } catch (e) { return e.message; } })()];
