// script
import nlp from 'compromise';

const doc = nlp('Ada Lovelace wrote two programs in London, and she was very happy.');
export default { people: doc.people().out('array'), places: doc.places().out('array'), verbs: doc.verbs().toInfinitive().out('array'), nouns: doc.nouns().out('array'), terms: doc.terms().length };
