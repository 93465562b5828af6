import { Marked, marked } from 'marked';

const text = `# Title *em*

A paragraph with **bold**, \`code\`, [a link](https://example.com "t"), ![img](a.png) and <b>html</b>.
Hard  
break & entities &copy; "quotes".

- item 1
  - nested
    1. deep
- [x] task
- [ ] open

| a | b |
|:--|--:|
| 1 | ~~2~~ |

\`\`\`js
const a = "<b>";
\`\`\`

> quote
> > nested

1. one
2. two

---
Setext
======

https://auto.link and a_b_c

[ref]: http://ref.example
See [ref].
`;
const custom = new Marked({ gfm: true, breaks: true });
custom.use({ renderer: { heading({ tokens, depth }) { return `<h${depth} id="x">${this.parser.parseInline(tokens)}</h${depth}>`; } } });
export default { html: marked.parse(text), custom: custom.parse('# A *b*\nline\nbreak'), tokens: marked.lexer('* a\n* b\n\npara').map((t) => [t.type, t.raw]), inline: marked.parseInline('a **b** `c`') };
