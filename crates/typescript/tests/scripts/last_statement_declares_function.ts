main();
function main() { return 1; }
