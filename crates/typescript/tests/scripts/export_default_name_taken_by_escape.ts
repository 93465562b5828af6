const \u005fdefault = 1;
export default 2;
