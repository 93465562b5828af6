import Decimal from 'decimal.js';

Decimal.set({ precision: 60 });
const D = (x) => new Decimal(x);
export default [D(0.1).plus(0.2), D(2).sqrt(), D(1).exp(), D(10).ln(), Decimal.acos(-1), D(0.5).sin(), D(3).pow('0.333333'), D('1e400').toFixed().length, D(255).toHex(), D('0b1011.01'), D(1).div(7).toDP(25), Decimal.max(1, '3.5', 2), D('-123.456').toFraction(1000).join('/'), D(17).mod(5), D('Infinity').neg(), D(NaN).isNaN(), D('123456789.987654321').toSD(6), D(1e21).toString()].map(String);
