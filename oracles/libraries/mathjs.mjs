// minified
import { all, create } from 'mathjs';

const math = create(all, { randomSeed: 'seed' });
const big = create(all, { number: 'BigNumber', precision: 40 });
const parser = math.parser();
parser.evaluate('f(x, y) = x^2 + y');
const s = (x) => math.format(x, { precision: 10 });
export default [s(math.evaluate('sqrt(-4) + 3i * 2')), s(math.evaluate('12.7 cm to inch')), s(math.evaluate('det([1, 2; 3, 4]) + inv([2, 1; 1, 3])[1, 2]')), parser.evaluate('f(3, 4)'), math.derivative('x^3 + 2*x*sin(x)', 'x').toString(), math.simplify('2x + 3x - (4 - x)').toString(), s(math.evaluate('1/3 + fraction(1, 6)')), big.evaluate('1/3').toString(), math.parse('a * (b + 2) > 3 ? 1 : 2').toTex(), s(math.lusolve([[2, 1], [1, 3]], [3, 5])), s(math.eigs([[2, 0], [0, 3]]).values), math.std([1, 2, 3, 4]).toFixed(8), s(math.random() < 1), math.evaluate('mean(1:10) + sum([1, 2, 3]) + 5!'), math.format(math.unit(5, 'km/h').to('m/s'), 6), math.gcd(84, 36), s(math.matrix([[1, 2], [3, 4]]).subset(math.index(1, [0, 1]))), math.evaluate('0xff + 0b11'), (() => { try { math.evaluate('2 +'); } catch (e) { return e.message; } })()];
