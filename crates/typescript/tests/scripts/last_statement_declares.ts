1;
const a = 2;
