export default await f();
const late = 1;
late;
