import BigNumber from 'bignumber.js';

const B = BigNumber.clone({ DECIMAL_PLACES: 40, FORMAT: { decimalSeparator: ',', groupSeparator: '.', groupSize: 3 } });
export default [new B('1234567.891').toFormat(2), new B(1).div(3).toString(), new B('ff', 16).toString(), new B(10).pow(50).plus(1).toFixed(), new B(2).sqrt().toString(), new B('0.1').plus('0.2').eq('0.3'), new B(255).toString(2), new B('1e-30').times('1e31').toNumber(), B.sum(1, '2', 3.5).toString(), new B(-5.5).integerValue(B.ROUND_FLOOR).toString(), new B(7).modulo(3).toString(), JSON.stringify({ n: new B('12.50') })];
