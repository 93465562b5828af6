export default async function main() { return helper(); }
function helper() { return 1; }
