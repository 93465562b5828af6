type A = typeof console;
let x: typeof input;
interface getMessage {}
export default x;
