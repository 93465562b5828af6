// minified
import validator from 'validator';

export default [validator.isEmail('a.b+c@d.co.uk'), validator.isEmail('nope@'), validator.isURL('https://example.com/a?b=c#d'), validator.isUUID('c2f0b1a4-6f0e-4c58-9a3b-0f1e2d3c4b5a'), validator.isCreditCard('4111111111111111'), validator.isIBAN('DE89370400440532013000'), validator.isISO8601('2024-02-30', { strict: true }), validator.isStrongPassword('aB3$efgh'), validator.escape('<a href="x">\'</a>'), validator.normalizeEmail('Some.Name+tag@GMAIL.com'), validator.isMobilePhone('+491701234567', 'de-DE'), validator.isJSON('{"a":1}'), validator.isIP('::1'), validator.trim('  x '), validator.isSemVer('1.2.3-x'), validator.isHexColor('#ff0034'), validator.isLatLong('40.7,-74.0'), validator.toFloat('1.5x')];
