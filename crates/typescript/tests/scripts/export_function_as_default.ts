function main() { return 1; }
export { main as default };
