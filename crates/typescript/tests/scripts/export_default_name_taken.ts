const _default = 1, _default2 = 2;
export default _default + _default2;
