export default { fetch() { return 1; } }
