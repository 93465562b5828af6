import { console } from './mine.js';
var input = 1;
{ function getMessage() {} }
export { console, input };
