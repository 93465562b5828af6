// script
import { parse } from 'node-html-parser';

const root = parse('<ul id="list"><li class="a b">One &amp; more</li><li data-x="1">Two</li></ul>');
export default { items: root.querySelectorAll('li').map((item) => item.text), classes: [...root.querySelector('li').classList.values()], data: root.querySelector('[data-x]').getAttribute('data-x'), html: root.querySelector('#list').outerHTML };
