main()

async function main() { return 1; }
function* other() {}
interface Later {}
declare const z: number;
