import Big from 'big.js';

Big.DP = 30;
const pi = (() => { let s = new Big(0); for (let k = 0; k < 15; k++) { const f = new Big(16).pow(-k); s = s.plus(f.times(new Big(4).div(8 * k + 1).minus(new Big(2).div(8 * k + 4)).minus(new Big(1).div(8 * k + 5)).minus(new Big(1).div(8 * k + 6)))); } return s; })();
export default [new Big(0.1).plus(0.2).toString(), new Big(1).div(3).toFixed(20), new Big(2).sqrt().toString(), pi.toFixed(15), new Big('123456789.123456789').times('987654321.987654321').toString(), new Big(-1.5).round(0, 1).toString(), new Big('1e-20').toExponential(), new Big(255).mod(16).toNumber(), new Big(5).cmp(4), (() => { try { return new Big('x'); } catch (e) { return e.message; } })()];
