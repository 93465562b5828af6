import Fuse from 'fuse.js';

const books = [{ t: 'Old Man\'s War', a: 'John Scalzi', tags: ['war', 'space'] }, { t: 'The Lock Artist', a: 'Steve Hamilton', tags: ['crime'] }, { t: 'HTML5', a: 'Remy Sharp', tags: ['web'] }, { t: 'The Great War', a: 'P. Fussell', tags: ['history', 'war'] }];
const fuse = new Fuse(books, { keys: [{ name: 't', weight: 2 }, 'a', 'tags'], includeScore: true, includeMatches: true, threshold: 0.5 });
const show = (rs) => rs.map((r) => [r.refIndex, r.score.toFixed(6), r.matches.map((m) => m.key + JSON.stringify(m.indices))]);
export default [show(fuse.search('war')), show(fuse.search('jon scalzy')), show(fuse.search('html')), fuse.search('zzz').length, new Fuse(['apple', 'orange', 'banana']).search('aple').map((r) => r.item), new Fuse(books, { keys: ['t'], useExtendedSearch: true }).search("'war !great").map((r) => r.item.t)];
