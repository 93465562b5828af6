// minified
import * as babel from 'prettier/plugins/babel';
import * as estree from 'prettier/plugins/estree';
import * as markdown from 'prettier/plugins/markdown';
import * as postcss from 'prettier/plugins/postcss';
import * as prettier from 'prettier/standalone';

const plugins = [babel, estree, markdown, postcss];
const js = `const a={b:1,'c':[1,2,3],d:function(){return x?y:z}};async function* f({a,...b}={}){for await(const c of d){if(c)yield*c;else{throw new Error(\`x\${c}\`)}}}
export default class extends B{static #p=1;get q(){return this.#p??0}}; someFunction(argumentNumberOne, argumentNumberTwo, (x) => x.map(y=>y*2).filter(Boolean), { long: 'object', that: "breaks" });`;
export default [
  await prettier.format(js, { parser: 'babel', plugins }),
  await prettier.format(js, { parser: 'babel', plugins, semi: false, singleQuote: true, printWidth: 40, trailingComma: 'none' }),
  await prettier.format('# a\n* b\n* c\n\n|a|b|\n|-|-|\n|1|2|', { parser: 'markdown', plugins }),
  await prettier.format('a{color:red;b:c}@media (max-width:1px){.x>y{z:1}}', { parser: 'css', plugins }),
  await prettier.format('{"a":1,"b":[1,2,{"c":null}]}', { parser: 'json', plugins }),
  await prettier.format('let a = ;', { parser: 'babel', plugins }).catch((e) => [e.name, e.loc?.start]),
];
